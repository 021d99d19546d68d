package daemon

import (
	"strings"
	"testing"
)

func TestNoPasswordIsShownOfAddressesThatAreNone(t *testing.T) {
	for _, address := range []string{
		"ops:s3cr3t@db.example/tidemark", "postgres:ops:s3cr3t@db.example/x",
		"postgres:/ops:s3cr3t@db.example/x", "postgres://ops:12/s3cr3t@db.example/x",
		"postgres://ops:a@s3cr3t@127.0.0.1:1/x",
	} {
		if got := Redact(address); strings.Contains(got, "s3cr3t") {
			t.Errorf("%q is shown as %q", address, got)
		}
		if _, err := OpenStore(t.Context(), address, StoreOptions{}); err == nil || strings.Contains(err.Error(), "s3cr3t") {
			t.Errorf("%q: %v", address, err)
		}
		if _, err := PrintDDL(address); err != nil && strings.Contains(err.Error(), "s3cr3t") {
			t.Errorf("%q: %v", address, err)
		}
	}
}
