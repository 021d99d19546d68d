package main

import (
	"bytes"
	"context"
	"path/filepath"
	"syscall"
	"testing"

	"go.uber.org/zap"

	"github.com/tidemarkd/tidemark/internal/daemon"
)

// TestSignalsAreExitCodes of all commands but run, whatever they were at.
func TestSignalsAreExitCodes(t *testing.T) {
	store := "sqlite:" + filepath.Join(t.TempDir(), "t.db")
	opened, err := daemon.OpenStore(t.Context(), store, daemon.StoreOptions{Create: true, Log: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	defer opened.Close()
	for signal, want := range map[syscall.Signal]int{syscall.SIGINT: 130, syscall.SIGTERM: 143} {
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(interrupted{signal})
		var out, errs bytes.Buffer
		if code := execute(ctx, ctx, []string{"status", "--store", store}, &out, &errs); code != want {
			t.Errorf("%s: exit code is %d, want %d: %s", signal, code, want, errs.String())
		}
		if errs.Len() > 0 {
			t.Errorf("%s: says %q", signal, errs.String())
		}
	}
}
