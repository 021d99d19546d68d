package daemon

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/tidemarkd/tidemark/internal/config"
	"github.com/tidemarkd/tidemark/jobstore"
)

func TestExitCodes(t *testing.T) {
	fault := config.Error{File: "tidemark.yaml", Line: 1, Col: 1, Msg: "wrong"}
	for _, c := range []struct {
		err  error
		want int
	}{
		{nil, 0},
		{errors.New("anything"), 1},
		{context.Canceled, 1},
		{jobstore.ErrNotFound, 1},
		{jobstore.ErrState, 1},
		{ErrStoreURL, 2},
		{jobstore.ErrConflict, 65},
		{jobstore.ErrUnavailable, 69},
		{jobstore.ErrDamaged, 69},
		{jobstore.ErrNewerSchema, 69},
		{jobstore.ErrOldSchema, 69},
		{jobstore.ErrNoStore, 69},
		{jobstore.ErrLocked, 75},
		{jobstore.ErrNodeTaken, 75},
		{fault, 78},
		{config.Errors{fault, fault}, 78},
	} {
		if got := ExitCode(c.err); got != c.want {
			t.Errorf("%v: %d, not %d", c.err, got, c.want)
		}
		if c.err == nil {
			continue
		}
		if got := ExitCode(errors.Join(fmt.Errorf("run: %w", c.err), errors.New("close: bad luck"))); got != c.want {
			t.Errorf("%v, wrapped: %d, not %d", c.err, got, c.want)
		}
	}
}

func TestAConfigThatIsMissingOrWrongIsExitCode78(t *testing.T) {
	dir := t.TempDir()
	wrong := filepath.Join(dir, "wrong.yaml")
	if err := os.WriteFile(wrong, []byte("jobs: {a: {schedule: '61 * * * *', exec: {command: [\"true\"]}}}"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{wrong, filepath.Join(dir, "none.yaml"), dir} {
		if _, err := config.Load(path, config.Options{}); ExitCode(err) != ExitConfig {
			t.Errorf("%s: %d, %v", path, ExitCode(err), err)
		}
	}
}
