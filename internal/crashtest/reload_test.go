package crashtest

import (
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tidemarkd/tidemark/internal/pgtest"
	"github.com/tidemarkd/tidemark/jobstore"
)

// These tests wait far more than they work: more of them go at once than there
// are processors, unless -parallel says otherwise.
func TestMain(m *testing.M) {
	flag.Parse()
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == "test.parallel" })
	if !given {
		if err := flag.Set("test.parallel", "8"); err != nil {
			panic(err)
		}
	}
	os.Exit(m.Run())
}

// lines counts the log lines that hold all parts.
func (d *Daemon) lines(parts ...string) int {
	n := 0
lines:
	for line := range strings.Lines(d.Log()) {
		for _, part := range parts {
			if !strings.Contains(line, part) {
				continue lines
			}
		}
		n++
	}
	return n
}

// awaitLines waits until n log lines hold all parts.
func (d *Daemon) awaitLines(n int, parts ...string) {
	d.t.Helper()
	Await(d.t, 20*time.Second, fmt.Sprintf("%d lines with %q", n, parts), func() bool {
		select {
		case <-d.ended:
			d.t.Fatalf("the daemon has ended:\n%s", d.log)
		default:
		}
		return d.lines(parts...) >= n
	})
}

func because(why string) string { return fmt.Sprintf(`"because":%q`, why) }

const (
	loaded    = `"config loaded"`
	notLoaded = `"config not loaded, the old definitions go on"`
)

// post asks for a reload over HTTP.
func post(t *testing.T, listen string) (int, string) {
	t.Helper()
	resp, err := http.Post("http://"+listen+"/-/reload", "", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(body)
}

func metricsOf(t *testing.T, listen string) string {
	t.Helper()
	code, scrape := get(t, "http://"+listen+"/metrics")
	if code != http.StatusOK {
		t.Fatalf("/metrics: %d %s", code, scrape)
	}
	return scrape
}

// nodes is `tidemark status --json`, as far as it tells of nodes' configs.
type nodes struct {
	Nodes []struct {
		Node        string `json:"node"`
		ConfigError string `json:"config_error"`
	} `json:"nodes"`
	ConfigMismatch bool `json:"config_mismatch"`
}

func statusOf(t *testing.T, store string) (s nodes) {
	t.Helper()
	ask(t, &s, "status", "--json", "--store", store)
	return s
}

// ask runs a command of the program and reads what it prints.
func ask(t *testing.T, into any, args ...string) {
	t.Helper()
	cmd := exec.Command(Binary(t), args...)
	cmd.Dir = t.TempDir()
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%q: %v\n%s", args, err, out)
	}
	if err := json.Unmarshal(out, into); err != nil {
		t.Fatalf("%q: %v\n%s", args, err, out)
	}
}

// place is where a test's daemon lives.
type place struct {
	t                          *testing.T
	dir, store, listen, config string
}

func newPlace(t *testing.T) *place {
	t.Helper()
	t.Parallel()
	dir := t.TempDir()
	return &place{t, dir, "sqlite:" + filepath.Join(dir, "tidemark.db"), FreeAddress(t), filepath.Join(dir, "tidemark.yaml")}
}

// head is a config up to its jobs.
func (p *place) head(node string) string {
	return fmt.Sprintf("store: %q\nlisten: %s\nnode: %s\nshutdown_grace: 5s\ndefaults: {misfire_grace_time: unlimited, coalesce: latest}\n", p.store, p.listen, node)
}

// write makes jobs the config's.
func (p *place) write(jobs ...string) {
	p.t.Helper()
	Write(p.t, p.dir, "tidemark.yaml", p.head("one")+"jobs:\n  "+strings.Join(jobs, "\n  ")+"\n")
}

// reload makes jobs the config's and waits until the daemon has them.
func (p *place) reload(d *Daemon, jobs ...string) {
	p.t.Helper()
	before := d.lines(loaded)
	p.write(jobs...)
	d.Signal(syscall.SIGHUP)
	d.awaitLines(before+1, loaded)
}

func (p *place) start() *Daemon {
	p.t.Helper()
	d := Start(p.t, p.dir, p.config)
	d.AwaitLog(`"listening"`, 20*time.Second)
	return d
}

func (p *place) stop(d *Daemon) {
	p.t.Helper()
	d.Signal(syscall.SIGTERM)
	if code := d.Wait(20 * time.Second); code != 0 {
		p.t.Errorf("exit code %d:\n%s", code, d.Log())
	}
}

// awaitRun waits for a run of a job that is as asked, and returns it.
func awaitRun(t *testing.T, s jobstore.Store, job, what string, ok func(jobstore.Run) bool) (found jobstore.Run) {
	t.Helper()
	Await(t, 20*time.Second, "run of "+job+" that "+what, func() bool {
		for _, r := range runsOf(t, s, job) {
			if ok(r) {
				found = r
				return true
			}
		}
		return false
	})
	return found
}

func succeededAfter(at time.Time) func(jobstore.Run) bool {
	return func(r jobstore.Run) bool { return r.State == jobstore.Succeeded && r.FireTime.After(at) }
}

const steady = `steady: {schedule: "@every 1s", exec: {command: ["true"]}}`

func TestABrokenFileChangesNothingAndEverythingSaysSo(t *testing.T) {
	p := newPlace(t)
	p.write(steady)
	d := p.start()
	s := open(t, p.store)
	awaitRun(t, s, "steady", "succeeded", succeededAfter(time.Time{}))

	p.write(`steady: {schedule: "61 * * * *", exec: {command: ["true"]}}`, `other: {shedule: "@daily", exec: {command: ["true"]}}`)
	place := p.config + ":7:"
	d.awaitLines(2, notLoaded, because("file changed"), place[:len(place)-2]) // both faults
	d.Signal(syscall.SIGHUP)
	d.awaitLines(1, notLoaded, because("SIGHUP"), place, "steady.schedule")
	code, body := post(t, p.listen)
	if code < 500 || !strings.Contains(body, place) || !strings.Contains(body, "steady.schedule") || !strings.Contains(body, "other.shedule") {
		t.Errorf("POST: %d %s", code, body)
	}
	d.awaitLines(1, notLoaded, because("POST /-/reload"))
	scrape := metricsOf(t, p.listen)
	if !strings.Contains(scrape, "tidemark_config_last_reload_successful 0\n") {
		t.Error("the metric does not tell of the failure")
	}
	loadedAt := sum(scrape, "tidemark_config_last_reload_timestamp_seconds")
	Await(t, 10*time.Second, "error in status", func() bool {
		got := statusOf(t, p.store)
		return len(got.Nodes) == 1 && strings.Contains(got.Nodes[0].ConfigError, place) && strings.Contains(got.Nodes[0].ConfigError, "steady.schedule")
	})
	awaitRun(t, s, "steady", "fired by the old definition", succeededAfter(time.Now()))
	if code, body := get(t, "http://"+p.listen+"/readyz"); code != http.StatusOK {
		t.Errorf("/readyz is %d: a restart would make it worse: %s", code, body)
	}

	// A file that is gone is as broken, and an empty one.
	for text, says := range map[string]string{"": "empty", "jobs: {a: {exec: ": p.config} {
		Write(t, p.dir, "tidemark.yaml", text)
		if code, body := post(t, p.listen); code < 500 || !strings.Contains(body, says) {
			t.Errorf("POST of %q: %d %s", text, code, body)
		}
	}
	if err := os.Remove(p.config); err != nil {
		t.Fatal(err)
	}
	if code, body := post(t, p.listen); code < 500 || !strings.Contains(body, "no such file") {
		t.Errorf("POST without a file: %d %s", code, body)
	}

	mended := time.Now()
	p.write(steady, `added: {schedule: "@every 1s", exec: {command: ["true"]}}`)
	d.awaitLines(1, loaded, because("file changed"))
	if scrape := metricsOf(t, p.listen); !strings.Contains(scrape, "tidemark_config_last_reload_successful 1\n") ||
		sum(scrape, "tidemark_config_last_reload_timestamp_seconds") <= loadedAt {
		t.Error("the metrics do not tell that it is mended")
	}
	Await(t, 10*time.Second, "status without an error", func() bool {
		got := statusOf(t, p.store)
		return len(got.Nodes) == 1 && got.Nodes[0].ConfigError == ""
	})
	awaitRun(t, s, "added", "succeeded", succeededAfter(mended))
	if code, body := post(t, p.listen); code != http.StatusOK {
		t.Errorf("POST: %d %s", code, body)
	}
	p.stop(d)
	checkLedger(t, s)
	runs := runsOf(t, s, "steady")
	for i := 1; i < len(runs); i++ {
		if runs[i-1].FireTime.Sub(runs[i].FireTime) != time.Second {
			t.Errorf("%v follows %v: the reloads cost a fire time", runs[i-1].FireTime, runs[i].FireTime)
		}
	}
}

func TestAChangedScheduleNeverFiresForThePast(t *testing.T) {
	p := newPlace(t)
	job := func(every string) string {
		return fmt.Sprintf(`a: {schedule: "@every %s", coalesce: all, catchup: {max: unlimited}, exec: {command: ["true"]}}`, every)
	}
	p.write(job("1s"))
	d := p.start()
	s := open(t, p.store)
	awaitRun(t, s, "a", "succeeded", succeededAfter(time.Now()))
	p.stop(d)
	stopped := time.Now()
	before := runsOf(t, s, "a")

	// What the old schedule owes is superseded, and the new one begins now.
	<-time.After(time.Until(before[0].FireTime.Add(3500 * time.Millisecond)))
	p.write(job("2s"))
	started := time.Now()
	d = p.start()
	first := awaitRun(t, s, "a", "fired by the new schedule", succeededAfter(started))
	for _, r := range runsOf(t, s, "a") {
		if r.FireTime.After(stopped) && r.FireTime.Before(started) {
			t.Errorf("%s fired for the past", r.Key)
		}
	}
	ranges, err := s.Ranges(t.Context(), first.JobID, before[0].FireTime, started)
	if err != nil || len(ranges) != 1 || ranges[0].Outcome != jobstore.OutcomeSuperseded || ranges[0].Reason != jobstore.ReasonSuperseded || ranges[0].Count < 3 {
		t.Errorf("what was owed: %+v, %v", ranges, err)
	}

	// And while it runs: a schedule with many instants in the last minutes.
	p.reload(d, job("24h"))
	quiet := time.Now()
	<-time.After(1200 * time.Millisecond)
	changed := time.Now()
	p.reload(d, job("1s"))
	awaitRun(t, s, "a", "fired by the newest schedule", succeededAfter(changed))
	for _, r := range runsOf(t, s, "a") {
		if r.FireTime.After(quiet) && r.FireTime.Before(changed) {
			t.Errorf("%s fired for the past", r.Key)
		}
	}
	p.stop(d)
	checkLedger(t, s)
}

func TestARemovedJobStopsAndGoesOnFromItsWatermarkWhenItIsAddedAgain(t *testing.T) {
	p := newPlace(t)
	// Ends when there is a gate to go through.
	const gated = `gated: {schedule: "@every 1s", window: true, exec: {command: "until [ -e gate ]; do sleep 0.05; done", shell: true, dir: .}}`
	p.write(steady, gated)
	d := p.start()
	s := open(t, p.store)
	running := awaitRun(t, s, "gated", "runs", func(r jobstore.Run) bool { return r.State == jobstore.Running })
	waiting := awaitRun(t, s, "gated", "waits", func(r jobstore.Run) bool { return r.State == jobstore.Pending })

	p.reload(d, steady)
	removed := time.Now()
	Await(t, 10*time.Second, "skipped run", func() bool {
		r, _, err := s.Run(t.Context(), waiting.Key)
		return err == nil && !r.State.Open()
	})
	for _, r := range runsOf(t, s, "gated") {
		switch {
		case r.Key == running.Key:
			if r.State != jobstore.Running {
				t.Errorf("what ran is %s", r.State)
			}
		case r.State == jobstore.Skipped && r.Reason == jobstore.ReasonRemoved:
		case r.State == jobstore.Coalesced && r.FireTime.Before(removed): // gave way to a newer one before
		default:
			t.Errorf("%s is %s (%s)", r.Key, r.State, r.Reason)
		}
	}
	if skipped := len(listed(t, s, "gated", jobstore.Skipped)); skipped != 1 {
		t.Errorf("%d runs were skipped, one waited", skipped)
	}
	awaitRun(t, s, "steady", "fired afterwards", succeededAfter(removed.Add(time.Second)))
	Write(t, p.dir, "gate", "")
	ended := awaitRun(t, s, "gated", "ended", func(r jobstore.Run) bool { return r.Key == running.Key && !r.State.Open() })
	if ended.State != jobstore.Succeeded || ended.Attempt != 1 {
		t.Errorf("what ran ended as %s after %d attempts", ended.State, ended.Attempt)
	}
	if scrape := metricsOf(t, p.listen); strings.Contains(scrape, `job_name="gated"`) {
		t.Error("the removed job has series")
	}
	if newest := runsOf(t, s, "gated")[0]; newest.FireTime.After(removed) {
		t.Errorf("it still fires: %s", newest.Key)
	}

	added := time.Now()
	p.reload(d, steady, gated)
	first := awaitRun(t, s, "gated", "fired again", succeededAfter(added))
	for _, r := range runsOf(t, s, "gated") {
		if r.FireTime.After(added) && r.State == jobstore.Succeeded && r.FireTime.Before(first.FireTime) {
			first = r
		}
		if r.FireTime.After(removed) && r.FireTime.Before(added) {
			t.Errorf("%s fired for the time when the job was not there", r.Key)
		}
	}
	if !first.WindowFrom.Equal(ended.WindowTo) {
		t.Errorf("it goes on from %v, the watermark was %v", first.WindowFrom, ended.WindowTo)
	}
	p.stop(d)
	checkLedger(t, s)
}

func listed(t *testing.T, s jobstore.Store, job string, states ...jobstore.State) []jobstore.Run {
	t.Helper()
	runs, err := s.Runs(t.Context(), jobstore.RunFilter{Job: job, States: states})
	if err != nil {
		t.Fatal(err)
	}
	return runs
}

func TestARenamedJobKeepsItsHistoryAndItsWatermark(t *testing.T) {
	p := newPlace(t)
	job := func(name string) string {
		return name + `schedule: "@every 1s", window: true, coalesce: all, catchup: {max: unlimited}, overlap: queue_all, exec: {command: ["true"]}}`
	}
	p.write(job("old: {"))
	d := p.start()
	s := open(t, p.store)
	first := awaitRun(t, s, "old", "succeeded", succeededAfter(time.Now().Add(time.Second)))
	p.reload(d, job("new: {renamed_from: old, "))
	awaitRun(t, s, "new", "fired under the new name", succeededAfter(time.Now().Add(time.Second)))
	p.stop(d)

	if left := runsOf(t, s, "old"); len(left) > 0 {
		t.Errorf("under the old name there are %d runs", len(left))
	}
	keys := map[string]int{}
	runs := runsOf(t, s, "new")
	for i, r := range runs {
		keys[jobstore.JobOfKey(r.Key)]++
		if i > 0 && runs[i-1].FireTime.Sub(r.FireTime) != time.Second {
			t.Errorf("%v follows %v", runs[i-1].FireTime, r.FireTime)
		}
	}
	if keys["old"] < 1 || keys["new"] < 1 {
		t.Errorf("keys by name: %v", keys)
	}
	if r, _, err := s.Run(t.Context(), first.Key); err != nil || r.Job != "new" {
		t.Errorf("%s is of job %q, %v", first.Key, r.Job, err)
	}
	checkTiles(t, s, "new")
	checkLedger(t, s)
}

// Kubernetes swaps the link that the file's directory is.
func TestASwappedConfigMapIsNoticed(t *testing.T) {
	p := newPlace(t)
	mount := filepath.Join(p.dir, "mount")
	version := 0
	swap := func(job string) {
		t.Helper()
		version++
		data := fmt.Sprintf("..2026_%d", version)
		if err := os.MkdirAll(filepath.Join(mount, data), 0o755); err != nil {
			t.Fatal(err)
		}
		Write(t, filepath.Join(mount, data), "tidemark.yaml", p.head("one")+"include: [jobs.yaml]\njobs: {}\n")
		Write(t, filepath.Join(mount, data), "jobs.yaml", "jobs:\n  "+job+`: {schedule: "@every 1s", exec: {command: ["true"]}}`+"\n")
		if err := os.Symlink(data, filepath.Join(mount, "..data_tmp")); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(filepath.Join(mount, "..data_tmp"), filepath.Join(mount, "..data")); err != nil {
			t.Fatal(err)
		}
		if version > 1 {
			if err := os.RemoveAll(filepath.Join(mount, fmt.Sprintf("..2026_%d", version-1))); err != nil {
				t.Fatal(err)
			}
		}
	}
	swap("first")
	for _, name := range []string{"tidemark.yaml", "jobs.yaml"} {
		if err := os.Symlink(filepath.Join("..data", name), filepath.Join(mount, name)); err != nil {
			t.Fatal(err)
		}
	}
	p.config = filepath.Join(mount, "tidemark.yaml")
	d := p.start()
	s := open(t, p.store)
	awaitRun(t, s, "first", "succeeded", succeededAfter(time.Time{}))
	for i, job := range []string{"second", "third"} {
		swap(job)
		d.awaitLines(i+1, loaded, because("file changed"))
		awaitRun(t, s, job, "succeeded", succeededAfter(time.Time{}))
	}
	if n := d.lines(notLoaded); n > 0 {
		t.Errorf("it read a swap half way:\n%s", d.Log())
	}
	p.stop(d)
}

func TestARunningCommandSurvivesReloads(t *testing.T) {
	p := newPlace(t)
	long := func(more string) string {
		return `long: {schedule: "@every 1h", misfire_grace_time: 1h, ` + more +
			`exec: {dir: ., shell: true, command: "trap 'echo hup >> hups' HUP; touch began; until [ -e gate ]; do sleep 0.05; done; echo end"}}`
	}
	p.write(long(""))
	d := p.start()
	s := open(t, p.store)
	run, _, err := s.Trigger(t.Context(), jobstore.TriggerRequest{Job: "long", Key: jobstore.ManualKey("long", "", "k")})
	if err != nil {
		t.Fatal(err)
	}
	Await(t, 10*time.Second, "running command", func() bool { _, err := os.Stat(filepath.Join(p.dir, "began")); return err == nil })
	for i := range 3 {
		d.Signal(syscall.SIGHUP)
		d.awaitLines(i+1, loaded, because("SIGHUP"))
	}
	p.reload(d, strings.Replace(long(""), "echo end", "echo another", 1))
	p.reload(d, long("timeout: 10m, "))
	Write(t, p.dir, "gate", "")
	ended := awaitRun(t, s, "long", "ended", func(r jobstore.Run) bool { return r.Key == run.Key && !r.State.Open() })
	if ended.State != jobstore.Succeeded || ended.Attempt != 1 {
		t.Errorf("it ended as %s after %d attempts: %s", ended.State, ended.Attempt, ended.Message)
	}
	if out, err := s.Output(t.Context(), run.ID, 0); err != nil || string(out.Head) != "end\n" {
		t.Errorf("its output is %q, %v", out.Head, err)
	}
	if _, err := os.Stat(filepath.Join(p.dir, "hups")); err == nil {
		t.Error("SIGHUP reached the command")
	}
	p.stop(d)
}

func TestOfTwoNodesWithDifferentFilesTheNewerLoadWins(t *testing.T) {
	p := newPlace(t)
	p.store = pgtest.NewDatabase(t)
	listens := map[string]string{"one": p.listen, "two": FreeAddress(t)}
	write := func(node string, revision int, text string) string {
		p.listen = listens[node]
		return Write(t, p.dir, node+".yaml", fmt.Sprintf("revision: %d\n%sjobs:\n  common: {schedule: \"@every 1s\", exec: {command: [\"true\"]}}\n"+
			"  differs: {schedule: \"@every 1s\", exec: {command: [\"echo\", %q]}}\n", revision, p.head(node), text))
	}
	start := func(node string) *Daemon {
		d := Start(t, p.dir, filepath.Join(p.dir, node+".yaml"))
		d.AwaitLog(`"listening"`, 30*time.Second)
		return d
	}
	mismatch := func(node string) bool {
		return strings.Contains(metricsOf(t, listens[node]), `tidemark_config_mismatch{job_name="differs"} 1`)
	}
	awaitMismatch := func(node string, want bool) {
		t.Helper()
		Await(t, 20*time.Second, fmt.Sprintf("mismatch %v on node %s", want, node), func() bool { return mismatch(node) == want })
	}
	const warning = "this node's definition of a job differs from the store's"

	write("one", 0, "a")
	one := start("one")
	s := open(t, p.store)
	awaitRun(t, s, "differs", "ran on one", func(r jobstore.Run) bool { return r.State == jobstore.Succeeded && r.Node == "one" })
	write("two", 0, "b")
	two := start("two")
	onlyOn := func(node string) {
		t.Helper()
		other := map[string]string{"one": "two", "two": "one"}[node]
		awaitMismatch(other, true)
		if mismatch(node) {
			t.Errorf("node %s has the newest file, and calls it a mismatch", node)
		}
		from := time.Now()
		awaitRun(t, s, "differs", "ran on "+node, func(r jobstore.Run) bool { return succeededAfter(from.Add(2*time.Second))(r) && r.Node == node })
		for _, r := range runsOf(t, s, "differs") {
			if r.FireTime.After(from) && r.Node == other {
				t.Errorf("%s ran on %s, which has an older file", r.Key, other)
			}
		}
		for _, name := range []string{"common", "differs"} {
			if r := runsOf(t, s, name)[0]; time.Since(r.FireTime) > 5*time.Second {
				t.Errorf("%s does not fire any more: %s", name, r.Key)
			}
		}
	}
	onlyOn("two")
	if one.lines(warning, `"job":"differs"`) == 0 || one.lines(warning, `"job":"common"`) != 0 {
		t.Errorf("node one says nothing of it:\n%s", one.Log())
	}
	Await(t, 10*time.Second, "mismatch in status", func() bool { return statusOf(t, p.store).ConfigMismatch })

	// The older node's file is loaded again: now that is the newest load.
	one.Signal(syscall.SIGHUP)
	onlyOn("one")

	// A revision settles it whatever the order.
	write("two", 7, "b")
	two.Signal(syscall.SIGHUP)
	onlyOn("two")
	write("one", 6, "a")
	one.Signal(syscall.SIGTERM)
	if code := one.Wait(20 * time.Second); code != 0 {
		t.Errorf("exit code %d:\n%s", code, one.Log())
	}
	one = start("one")
	onlyOn("two")
	if one.lines("a newer config file was loaded by another node", `"revision":6`, `"newest":7`) == 0 {
		t.Errorf("node one does not say that its file is an old one:\n%s", one.Log())
	}

	// The same file on both: in order again.
	write("one", 7, "b")
	one.Signal(syscall.SIGHUP)
	awaitMismatch("one", false)
	for _, d := range []*Daemon{one, two} {
		d.Signal(syscall.SIGTERM)
		if code := d.Wait(20 * time.Second); code != 0 {
			t.Errorf("exit code %d:\n%s", code, d.Log())
		}
		if d.lines(`"level":"error"`) > 0 {
			t.Errorf("errors in its log:\n%s", d.Log())
		}
	}
	checkLedger(t, s)
}
