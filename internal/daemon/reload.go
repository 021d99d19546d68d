package daemon

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/fsnotify/fsnotify"
	"go.uber.org/zap"

	"github.com/tidemarkd/tidemark/internal/config"
	"github.com/tidemarkd/tidemark/jobstore"
	"github.com/tidemarkd/tidemark/scheduler"
)

// reloads makes loads of the file one at a time.
type reloads struct {
	mu    sync.Mutex
	files []string // what to watch
	bell  chan struct{}
	again chan struct{} // a load failed for want of the store: it is to be tried again
}

// reload loads the file again. A file with an error changes nothing: the old
// definitions go on, and everything says so (semantics 6).
func (d *daemon) reload(ctx context.Context, why string) error {
	d.reloads.mu.Lock()
	defer d.reloads.mu.Unlock()
	if ctx.Err() != nil {
		return fmt.Errorf("reload: %w", scheduler.ErrShutdown)
	}
	d.notify.reloading()
	cfg, err := config.Load(d.opt.ConfigPath, config.Options{})
	if err == nil {
		if cfg.AutoMigrate {
			d.databases.migrate(ctx, cfg, d.log)
		}
		_, err = d.loadLocked(ctx, cfg)
	}
	if err != nil {
		d.reloadFailed(why, err)
		d.notify.reloaded("the file is not loaded; the old definitions go on")
		return err
	}
	d.log.Info("config loaded", zap.String("because", why), zap.Int("jobs", len(cfg.Jobs)))
	for _, field := range startOnly(d.cfg, cfg) {
		d.log.Warn("a changed setting takes effect at the next start", zap.String("setting", field))
	}
	d.notify.reloaded("running")
	return nil
}

func (d *daemon) reloadFailed(why string, err error) {
	d.recorder.Reloaded(nil, time.Time{})
	d.scheduler.Describe(func(n *jobstore.Node) { n.ConfigErr = err.Error() })
	if errors.Is(err, jobstore.ErrUnavailable) {
		// The store may have taken it and its reply is lost, or will take it later:
		// either way the next load puts store and node in step.
		ring(d.reloads.again)
	}
	var faults config.Errors
	if !errors.As(err, &faults) {
		d.log.Error("config not loaded, the old definitions go on", zap.String("because", why), zap.Error(err))
		return
	}
	for _, fault := range faults {
		d.log.Error("config not loaded, the old definitions go on", zap.String("because", why), zap.String("error", fault.Error()))
	}
}

// load makes the config's jobs the running ones.
func (d *daemon) load(ctx context.Context, cfg *config.Config) (scheduler.Loaded, error) {
	d.reloads.mu.Lock()
	defer d.reloads.mu.Unlock()
	return d.loadLocked(ctx, cfg)
}

func (d *daemon) loadLocked(ctx context.Context, cfg *config.Config) (scheduler.Loaded, error) {
	jobs, err := d.databases.jobs(cfg)
	if err != nil {
		return scheduler.Loaded{}, err
	}
	loaded, err := d.scheduler.Load(ctx, jobs, cfg.Revision)
	if err != nil {
		return scheduler.Loaded{}, err
	}
	d.reloads.files = cfg.Files
	names := make([]string, len(jobs))
	for i, job := range jobs {
		names[i] = job.Name
	}
	if d.recorder.Reloaded(names, time.Now()) {
		d.log.Warn("histograms have no job_name any more: there are too many jobs", zap.Int("jobs", len(names)))
	}
	d.scheduler.Describe(func(n *jobstore.Node) {
		n.ConfigErr, n.ConfigHash, n.ConfigAt, n.Revision = "", cfg.Hash, time.Now(), cfg.Revision
	})
	d.tellChanges(cfg, loaded)
	ring(d.reloads.bell)
	return loaded, nil
}

// ring wakes the watching loop; a nil bell has nobody to wake.
func ring(bell chan struct{}) {
	select {
	case bell <- struct{}{}:
	default:
	}
}

func (d *daemon) tellChanges(cfg *config.Config, loaded scheduler.Loaded) {
	if loaded.Created+loaded.Changed+loaded.Removed > 0 {
		d.log.Info("jobs registered", zap.Int("new", loaded.Created), zap.Int("changed", loaded.Changed), zap.Int("removed", loaded.Removed))
	}
	if cfg.Revision < loaded.State.Revision {
		d.log.Warn("a newer config file was loaded by another node: this one changes nothing",
			zap.Int64("revision", cfg.Revision), zap.Int64("newest", loaded.State.Revision))
	}
	for _, name := range loaded.Strays {
		d.log.Warn("this node's definition of a job differs from the store's: it leaves the job to nodes that have the newer file", zap.String("job", name))
	}
}

// startOnly names the settings that differ and that only a start can change.
func startOnly(was, is *config.Config) []string {
	var out []string
	for name, differs := range map[string]bool{
		"store": was.Store != is.Store, "listen": was.Listen != is.Listen, "node": was.Node != is.Node,
		"max_concurrent_runs": was.MaxConcurrentRuns != is.MaxConcurrentRuns,
		"shutdown_grace":      was.ShutdownGrace != is.ShutdownGrace, "retention": was.Retention != is.Retention,
	} {
		if differs {
			out = append(out, name)
		}
	}
	return out
}

// settle is how long a changed file must be quiet before it is read: editors
// and ConfigMaps change it in several steps.
const settle = 300 * time.Millisecond

// reloadAgain is after how long a load that the store could not take is tried
// again.
const reloadAgain = 3 * time.Second

// onHangup reloads for every SIGHUP until ctx ends.
func (d *daemon) onHangup(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-d.hangups:
			_ = d.reload(ctx, "SIGHUP")
		}
	}
}

// watchConfig reloads on SIGHUP and when a file changes, until ctx ends. It
// watches directories, not files: ConfigMaps and editors swap what a name
// stands for.
func (d *daemon) watchConfig(ctx context.Context) {
	var wg sync.WaitGroup
	defer wg.Wait()
	wg.Go(func() { d.onHangup(ctx) })

	watcher, err := fsnotify.NewWatcher()
	if err != nil {
		d.log.Warn("file changes cannot be watched: send SIGHUP after an edit", zap.Error(err))
		return
	}
	defer watcher.Close()
	bell := make(chan struct{}, 1)
	d.reloads.mu.Lock()
	d.reloads.bell, d.reloads.again = bell, make(chan struct{}, 1)
	d.reloads.mu.Unlock()
	bell <- struct{}{}
	var quiet <-chan time.Time
	for {
		select {
		case <-ctx.Done():
			return
		case <-bell:
			d.watchDirs(watcher)
		case event, ok := <-watcher.Events:
			if ok && d.concerns(event.Name) && !event.Has(fsnotify.Chmod) {
				quiet = time.After(settle)
			}
		case err, ok := <-watcher.Errors:
			if ok {
				d.log.Warn("watching the config file", zap.Error(err))
				quiet = time.After(settle)
			}
		case <-quiet:
			quiet = nil
			_ = d.reload(ctx, "file changed")
		case <-d.reloads.again:
			quiet = time.After(reloadAgain)
		}
	}
}

func (d *daemon) watchDirs(watcher *fsnotify.Watcher) {
	for _, dir := range d.watched() {
		if err := watcher.Add(dir); err != nil {
			d.log.Warn("a directory cannot be watched: send SIGHUP after an edit", zap.String("directory", dir), zap.Error(err))
		}
	}
}

func (d *daemon) watched() []string {
	d.reloads.mu.Lock()
	defer d.reloads.mu.Unlock()
	dirs := []string{filepath.Dir(d.opt.ConfigPath)}
	for _, f := range d.reloads.files {
		dirs = append(dirs, filepath.Dir(f), f)
	}
	return onlyDirs(dirs)
}

// concerns reports whether a change of that name can change the config: one of
// its files, a file where `include:` looks, or the link that a ConfigMap swaps.
func (d *daemon) concerns(name string) bool {
	d.reloads.mu.Lock()
	defer d.reloads.mu.Unlock()
	if name = filepath.Clean(name); strings.HasPrefix(filepath.Base(name), "..") || name == filepath.Clean(d.opt.ConfigPath) {
		return true
	}
	for _, f := range d.reloads.files {
		if f = filepath.Clean(f); f == name || f == filepath.Dir(name) {
			return true
		}
	}
	return false
}

func onlyDirs(names []string) []string {
	seen := map[string]bool{}
	var dirs []string
	for _, name := range names {
		info, err := os.Stat(name)
		if err == nil && info.IsDir() && !seen[name] {
			seen[name] = true
			dirs = append(dirs, name)
		}
	}
	return dirs
}
