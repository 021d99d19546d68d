package daemon

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"runtime/debug"
	"strings"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"github.com/tidemarkd/tidemark/internal/config"
	"github.com/tidemarkd/tidemark/internal/executor"
	"github.com/tidemarkd/tidemark/internal/web"
	"github.com/tidemarkd/tidemark/jobstore"
	"github.com/tidemarkd/tidemark/metrics"
	"github.com/tidemarkd/tidemark/scheduler"
)

// storeWait is how long a start waits for a Postgres store (interfaces 1).
const storeWait = 30 * time.Second

// Options is what the daemon is started with.
type Options struct {
	ConfigPath string
	Store      string // overrides the file's; empty: the file's
	Log        *zap.Logger
	Version    string
	Revision   string            // of the source
	Listening  func(addr string) // told where HTTP is served; may be nil
}

// daemon is a running one.
type daemon struct {
	opt       Options
	log       *zap.Logger
	cfg       *config.Config // as started: what only a start can change
	store     jobstore.Store
	databases databases
	scheduler *scheduler.Scheduler
	recorder  *metrics.Recorder
	notify    *notifier
	hangups   chan os.Signal
	reloads   reloads
}

// Run is the daemon in the foreground. When ctx ends it drains for
// `shutdown_grace` and returns nil; when abort ends it hands everything back at
// once. Before it is ready it fails with errors that ExitCode knows; later it
// outlives any outage of the store.
func Run(ctx, abort context.Context, opt Options) (err error) {
	cfg, err := config.Load(opt.ConfigPath, config.Options{})
	if err != nil {
		return err
	}
	if os.Getenv("GOGC") == "" {
		// Idle most of the time: memory counts for more than the collector's work.
		debug.SetGCPercent(50)
	}
	d := &daemon{opt: opt, log: opt.Log, cfg: cfg, notify: newNotifier(opt.Log), hangups: make(chan os.Signal, 1)}
	signal.Notify(d.hangups, syscall.SIGHUP) // from the first moment on it does not end the process
	defer signal.Stop(d.hangups)
	listener, err := listen(cfg.Listen)
	if err != nil {
		if other := d.otherDaemon(ctx); other != nil {
			return other
		}
		return err
	}
	defer listener.Close()
	if err := d.open(ctx); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.databases.close(), d.store.Close()) }()
	node, err := d.join(ctx)
	if err != nil {
		return err
	}
	defer d.leave(node)

	registry := prometheus.NewRegistry()
	d.recorder = metrics.NewRecorder(registry)
	d.scheduler = scheduler.New(d.store, scheduler.Options{
		Node: node, Slots: cfg.MaxConcurrentRuns, Grace: cfg.ShutdownGrace,
		Keep:     scheduler.Retention{Runs: cfg.Retention.Runs, Output: cfg.Retention.Output},
		Observer: d.recorder, Log: d.log, Pulse: d.notify.pulse, Installation: installation(d.storeAddress()),
		Sweep: func(key string, attempt int) error {
			_, err := executor.Sweep(installation(d.storeAddress()), key, attempt)
			return err
		},
	})
	d.registerMetrics(registry)
	if err := d.start(ctx, cfg); err != nil {
		return err
	}
	return d.serve(ctx, abort, listener, registry)
}

// installation names the store, without a secret: the same for all its nodes.
func installation(address string) string {
	name := Redact(address)
	if path, ok := strings.CutPrefix(address, "sqlite:"); ok {
		if abs, err := filepath.Abs(path); err == nil {
			name = "sqlite:" + abs
		}
	}
	sum := sha256.Sum256([]byte(name))
	return hex.EncodeToString(sum[:8])
}

func listen(address string) (net.Listener, error) {
	l, err := net.Listen("tcp", address)
	if errors.Is(err, syscall.EADDRINUSE) {
		return nil, fmt.Errorf("listen on %s: the address is in use; is another daemon running? set `listen:` to another one: %w", address, err)
	}
	if err != nil {
		return nil, fmt.Errorf("listen: %w", err)
	}
	return l, nil
}

// otherDaemon looks, where the address to listen on is in use, whether it is
// another daemon on the same store that has it: ErrLocked, ErrNodeTaken. It
// makes nothing.
func (d *daemon) otherDaemon(ctx context.Context) error {
	store, err := OpenStore(ctx, d.storeAddress(), StoreOptions{Daemon: true})
	if err != nil {
		if errors.Is(err, jobstore.ErrLocked) {
			return err
		}
		return nil
	}
	defer store.Close()
	node, err := newNode(d.cfg.Node, "")
	if err != nil {
		return nil
	}
	rows, err := store.Nodes(ctx)
	if err != nil {
		return nil
	}
	for _, row := range rows {
		if row.Name == node.Name && time.Since(row.SeenAt) < jobstore.NodeTimeout && !isGone(row) {
			return fmt.Errorf("node %q: %w", node.Name, jobstore.ErrNodeTaken)
		}
	}
	return nil
}

func (d *daemon) storeAddress() string {
	if d.opt.Store != "" {
		return d.opt.Store
	}
	return d.cfg.Store.Value
}

func (d *daemon) open(ctx context.Context) (err error) {
	d.store, err = OpenStore(ctx, d.storeAddress(), StoreOptions{
		Create: d.cfg.AutoMigrate, Daemon: true, Wait: storeWait, Log: d.log,
	})
	return err
}

// join enters the node into the store. Its row may be held by a daemon that
// was killed a moment ago: where that cannot be known at once, its silence is
// waited for.
func (d *daemon) join(ctx context.Context) (jobstore.Node, error) {
	node, err := newNode(d.cfg.Node, d.opt.Version)
	if err != nil {
		return node, fmt.Errorf("name this node: %w", err)
	}
	node.ConfigHash, node.ConfigAt, node.Revision = d.cfg.Hash, time.Now(), d.cfg.Revision
	rows, err := d.store.Nodes(ctx)
	if err != nil {
		return node, err
	}
	var held jobstore.Node
	for _, row := range rows {
		if row.Name == node.Name {
			held = row
			node.Gone = isGone(row)
		}
	}
	err = d.store.Join(ctx, node)
	if errors.Is(err, jobstore.ErrNodeTaken) {
		d.log.Info("this node's name was in use a moment ago: waiting to see whether that daemon still lives", zap.String("node", node.Name))
		err = d.awaitSilence(ctx, node, held)
	}
	if errors.Is(err, jobstore.ErrNodeTaken) {
		return node, fmt.Errorf("node %q: %w", node.Name, err)
	}
	return node, err
}

// awaitSilence joins as soon as the row's holder has been silent for long
// enough, and fails as soon as it shows a sign of life.
func (d *daemon) awaitSilence(ctx context.Context, node, held jobstore.Node) error {
	poll := time.NewTicker(500 * time.Millisecond)
	defer poll.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-poll.C:
		}
		rows, err := d.store.Nodes(ctx)
		if err != nil {
			return err
		}
		for _, row := range rows {
			if row.Name == node.Name && (row.Instance != held.Instance || row.SeenAt.After(held.SeenAt)) {
				return jobstore.ErrNodeTaken
			}
		}
		if err := d.store.Join(ctx, node); !errors.Is(err, jobstore.ErrNodeTaken) {
			return err
		}
	}
}

func (d *daemon) leave(node jobstore.Node) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	if err := d.store.Leave(ctx, node); err != nil {
		d.log.Warn("could not sign off; the node's name is free again in a few seconds", zap.Error(err))
	}
}

// start loads the jobs for the first time and says what there is to do.
func (d *daemon) start(ctx context.Context, cfg *config.Config) error {
	if cfg.AutoMigrate {
		d.databases.migrate(ctx, cfg, d.log)
	}
	loaded, err := d.load(ctx, cfg)
	if err != nil {
		return err
	}
	err = d.scheduler.Resume(ctx, loaded.State)
	// Reading a file takes several times the memory of what it says.
	loaded, cfg.Jobs = scheduler.Loaded{}, nil
	debug.FreeOSMemory()
	return err
}

// serve runs everything until ctx ends. Metrics and health are served until
// the last run has been handed back.
func (d *daemon) serve(ctx, abort context.Context, listener net.Listener, registry *prometheus.Registry) error {
	running, stop := context.WithCancel(ctx)
	defer stop()
	server := web.NewServer(d.handler(running, registry))
	side, stopSide := context.WithCancel(context.WithoutCancel(ctx))
	defer stopSide()

	var g errgroup.Group
	g.Go(func() error {
		defer stop()
		if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			return fmt.Errorf("serve HTTP: %w", err)
		}
		return nil
	})
	g.Go(func() error { d.watchConfig(running); return nil })
	g.Go(func() error { d.notify.run(side, running.Done()); return nil })
	g.Go(func() error { d.databases.pruneLoop(running, d.cfg.Retention.Runs, d.log); return nil })
	g.Go(func() error {
		defer stop()
		err := d.scheduler.All(running, abort)
		stopSide()
		return errors.Join(err, closeServer(server))
	})
	d.log.Info("listening", zap.String("address", listener.Addr().String()),
		zap.String("node", d.scheduler.Node().Name), zap.String("store", Redact(d.storeAddress())))
	if d.opt.Listening != nil {
		d.opt.Listening(listener.Addr().String())
	}
	err := g.Wait()
	d.log.Info("stopped")
	return err
}

func closeServer(server *http.Server) error {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	if err := server.Shutdown(ctx); err != nil {
		return server.Close()
	}
	return nil
}
