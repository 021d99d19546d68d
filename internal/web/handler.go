// Package web serves what Tidemark shows over HTTP on `listen`: metrics,
// health and reload. It holds no state and decides nothing.
package web

import (
	"context"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"go.uber.org/zap"
)

// Options is what a handler needs.
type Options struct {
	Metrics http.Handler
	// Ready says why the daemon cannot do its work now, nil if it can: store
	// reachable, schema current, config loaded.
	Ready func(ctx context.Context) error
	// Reload loads the config file again.
	Reload func(ctx context.Context) error
	// Local reports that `listen` is a loopback address: only then is anything
	// served that changes something, for there are no tokens yet.
	Local bool
	Log   *zap.Logger
}

// NewHandler returns the handler. Metrics and health need no token. On a loopback
// address it answers to loopback names in Host alone (a page elsewhere must not
// reach it by rebinding its name); there alone is reload, which refuses requests
// that a browser sent from another origin.
func NewHandler(opt Options) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", opt.Metrics)
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, http.StatusOK, "ok")
	})
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), 5*time.Second)
		defer cancel()
		if err := opt.Ready(ctx); err != nil {
			answer(w, http.StatusServiceUnavailable, "not ready: "+err.Error())
			return
		}
		answer(w, http.StatusOK, "ready")
	})
	if !opt.Local {
		return mux
	}
	mux.Handle("POST /-/reload", http.NewCrossOriginProtection().Handler(reloadHandler(opt)))
	return loopbackHost(mux)
}

func reloadHandler(opt Options) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := opt.Reload(r.Context()); err != nil {
			opt.Log.Debug("reload over HTTP failed", zap.Error(err))
			answer(w, http.StatusInternalServerError, "the file was not loaded, the old definitions go on:\n"+err.Error())
			return
		}
		answer(w, http.StatusOK, "reloaded")
	})
}

// loopbackHost refuses requests whose Host is not a name of this machine.
func loopbackHost(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !isLoopbackName(r.Host) {
			answer(w, http.StatusForbidden, "this address answers to loopback names only")
			return
		}
		next.ServeHTTP(w, r)
	})
}

func isLoopbackName(host string) bool {
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	host = strings.Trim(host, "[]")
	if strings.EqualFold(host, "localhost") {
		return true
	}
	addr, err := netip.ParseAddr(host)
	return err == nil && addr.IsLoopback()
}

func answer(w http.ResponseWriter, status int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	_, _ = w.Write([]byte(strings.TrimRight(text, "\n") + "\n"))
}

// NewServer returns a server with every time-out set.
func NewServer(handler http.Handler) *http.Server {
	return &http.Server{
		Handler:           handler,
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       15 * time.Second,
		WriteTimeout:      60 * time.Second,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    64 << 10,
	}
}

// IsLocal reports whether an address to listen on is a loopback one.
func IsLocal(listen string) bool {
	host, _, err := net.SplitHostPort(listen)
	return err == nil && host != "" && isLoopbackName(host)
}
