package daemon

import (
	"strings"
	"testing"
)

func TestRedactShowsWhereAndNotHow(t *testing.T) {
	for address, want := range map[string]string{
		"sqlite:tidemark.db":                         "sqlite:tidemark.db",
		"sqlite:/var/lib/tidemark/a b.db":            "sqlite:/var/lib/tidemark/a b.db",
		"postgres://db.example/tidemark":             "postgres://db.example/tidemark",
		"postgres://tidemark@db.example/tidemark":    "postgres://tidemark@db.example/tidemark",
		"postgresql://ops:pw@db.example:5433/x":      "postgresql://ops@db.example:5433/x",
		"postgres://ops:pw@a.example:1,b.example:2/": "postgres://ops@a.example:1,b.example:2/",
		"postgres://ops@[2001:db8::1]:5432/tidemark": "postgres://ops@[2001:db8::1]:5432/tidemark",
	} {
		if got := Redact(address); got != want && !strings.HasPrefix(got, "(an address") {
			t.Errorf("%s is shown as %s", address, got)
		}
	}
}

// passwords stand where people and programs put them, rightly or not.
var passwords = []string{
	"postgres://ops:s3cr3t@db.example/tidemark",
	"postgresql://ops:s3cr3t@db.example:5432/tidemark?sslmode=require",
	"postgres://:s3cr3t@db.example/tidemark",
	"postgres://ops:s3cr3t@/tidemark?host=/run/postgresql",
	"postgres://db.example/tidemark?user=ops&password=s3cr3t",
	"postgres:///tidemark?password=s3cr3t",
	"postgres://ops@db.example/tidemark?sslkey=k&sslpassword=s3cr3t",
	"postgres://ops@db.example/tidemark?password=s3cr3t=",
	"postgres://ops@db.example/tidemark?password=s3cr3t%zz",
	"postgres://ops@db.example/tidemark?password=s3cr3t&sslmode=nonsense",
	"postgres://ops:s3cr3t@db.example/tidemark?sslmode=nonsense",
	"postgres://ops:s3cr3t@db.example/tidemark?pool_max_conns=nonsense",
	"postgres://ops:s3cr3t@db.example/tidemark#fragment",
	"postgres://ops:at%40s3cr3t@db.example/tidemark",
	"postgres://ops:s3cr3t:more@db.example/tidemark",
	"postgres://ops:%73s3cr3t@db.example/tidemark",
	"postgres://ops:a s3cr3t@db.example/tidemark",
	"postgres://ops:%zzs3cr3t@db.example/tidemark",
	"postgres://ops:a/s3cr3t@db.example/tidemark",
	"postgres://ops:a?s3cr3t@db.example/tidemark",
	"postgres://ops:a#s3cr3t@db.example/tidemark",
	"postgres://ops:[s3cr3t@db.example/tidemark",
	"postgres://ops:s3cr3t@db.example:port/tidemark",
	"postgres://ops:s3cr3t@a.example:5432,b.example:5433/tidemark",
	"host=db.example user=ops password=s3cr3t dbname=tidemark",
	"password='s3cr3t' host=db.example",
	"user=ops\npassword=s3cr3t",
	"Postgres://ops:s3cr3t@db.example/tidemark",
	"mysql://ops:s3cr3t@db.example/tidemark",
	"//ops:s3cr3t@db.example/tidemark",
	" postgres://ops:s3cr3t@db.example/tidemark",
	"jdbc:postgresql://db.example/tidemark?user=ops&password=s3cr3t",
}

func TestNoPasswordIsShown(t *testing.T) {
	for _, address := range passwords {
		if got := Redact(address); strings.Contains(got, "s3cr3t") {
			t.Errorf("%q is shown as %q", address, got)
		}
	}
}

// What the driver says of an address that it cannot read is no better place.
func TestNoPasswordIsInAnErrorAboutAnAddress(t *testing.T) {
	for _, address := range passwords {
		// Never leaves this machine, whatever the rest of it says.
		address = strings.NewReplacer("db.example", "127.0.0.1:1", "a.example", "127.0.0.1", "b.example", "127.0.0.1", ":1:5432", ":1").Replace(address)
		ctx := t.Context()
		store, err := OpenStore(ctx, address, StoreOptions{})
		if err == nil {
			_ = store.Close()
			t.Errorf("%q is a store", address)
			continue
		}
		if strings.Contains(err.Error(), "s3cr3t") {
			t.Errorf("%q: %v", address, err)
		}
		if _, err := PrintDDL(address); err != nil && strings.Contains(err.Error(), "s3cr3t") {
			t.Errorf("%q: %v", address, err)
		}
	}
}
