# Tidemark in a container: one static binary, not root, nothing written outside
# /data.
#
#   docker build -t tidemark --build-arg VERSION="$(git describe --tags --always)" .
#   docker run --read-only -p 127.0.0.1:9720:9720 -v tidemark:/data \
#     -v ./tidemark.yaml:/etc/tidemark/tidemark.yaml:ro tidemark
#
# The config has to say `listen: 0.0.0.0:9720` to be reached from outside. The
# image holds no shell and no other program: jobs that run commands need an image
# made from this one.

ARG BUILD_IMAGE=golang:1.26-bookworm
ARG RUNTIME_IMAGE=gcr.io/distroless/static:nonroot

FROM ${BUILD_IMAGE} AS build
# Where modules come from, if not from where the build image takes them.
ARG GOPROXY
ARG VERSION=unknown
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
RUN CGO_ENABLED=0 go build -trimpath -buildvcs=false \
      -ldflags "-s -w -X main.version=${VERSION}" -o /out/tidemark ./cmd/tidemark \
 && mkdir -p /out/data

FROM ${RUNTIME_IMAGE}
COPY --from=build /out/tidemark /tidemark
# The user "nonroot" of the distroless images, by number: that is what
# Kubernetes' runAsNonRoot can see.
COPY --from=build --chown=65532:65532 /out/data /data
USER 65532:65532
ENV TIDEMARK_CONFIG=/etc/tidemark/tidemark.yaml
# A relative path of the config, such as the default SQLite store, starts here.
WORKDIR /data
VOLUME /data
EXPOSE 9720
# SIGTERM drains for shutdown_grace (30s by default): give `docker stop` longer.
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=5s --start-period=40s CMD ["/tidemark", "health"]
ENTRYPOINT ["/tidemark"]
CMD ["run"]
