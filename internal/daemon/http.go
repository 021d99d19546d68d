package daemon

import (
	"context"
	"fmt"
	"net/http"
	"runtime"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"go.uber.org/zap"

	"github.com/tidemarkd/tidemark/internal/web"
	"github.com/tidemarkd/tidemark/metrics"
)

// scrapeTimeout bounds the reads of one scrape, below Prometheus's own ten
// seconds.
const scrapeTimeout = 8 * time.Second

func (d *daemon) registerMetrics(registry *prometheus.Registry) {
	registry.MustRegister(
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		metrics.NewCollector(metrics.Source{
			Store: d.store, Timeout: scrapeTimeout, Overdue: d.scheduler.Overdue, Current: d.scheduler.HasTarget,
			Node: func() metrics.NodeState {
				stats := d.scheduler.Stats()
				return metrics.NodeState{ClockOffset: stats.ClockOffset, Mismatched: stats.Strays}
			},
			Failed: func(err error) {
				d.recorder.StoreFailed("scrape")
				d.log.Warn("a scrape goes without what the store holds", zap.Error(err))
			},
		}))
	build := prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "tidemark_build_info", Help: "1, labelled with what this binary was built from.",
	}, []string{"version", "revision", "go_version"})
	build.WithLabelValues(d.opt.Version, d.opt.Revision, runtime.Version()).Set(1)
	registry.MustRegister(build)
}

func (d *daemon) handler(running context.Context, registry *prometheus.Registry) http.Handler {
	local := web.IsLocal(d.cfg.Listen)
	if !local {
		d.log.Info("only /metrics, /healthz and /readyz are served: `listen` is no loopback address; reload with SIGHUP", zap.String("listen", d.cfg.Listen))
	}
	return web.NewHandler(web.Options{
		Metrics: promhttp.HandlerFor(registry, promhttp.HandlerOpts{ErrorHandling: promhttp.ContinueOnError}),
		Ready:   d.ready,
		Reload:  func(context.Context) error { return d.reload(running, "POST /-/reload") },
		Local:   local, Log: d.log,
	})
}

// ready says why the daemon cannot do its work now. A file that was not loaded
// is no reason: the old definitions go on, and a restart would not help.
func (d *daemon) ready(ctx context.Context) error {
	if err := d.store.Check(ctx); err != nil {
		return fmt.Errorf("store: %w", err)
	}
	return nil
}
