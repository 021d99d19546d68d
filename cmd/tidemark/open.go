package main

import (
	"errors"
	"io/fs"
	"os"
	"os/user"
	"strings"

	"github.com/spf13/cobra"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/tidemarkd/tidemark/internal/config"
	"github.com/tidemarkd/tidemark/internal/daemon"
	"github.com/tidemarkd/tidemark/jobstore"
)

const (
	localConfig  = "tidemark.yaml"
	systemConfig = "/etc/tidemark/tidemark.yaml"
	defaultStore = "sqlite:tidemark.db"
)

// findConfig is the config file to use; empty where none is named and none
// stands in the usual places.
func (c *cli) findConfig() string {
	if c.configPath != "" {
		return c.configPath
	}
	for _, path := range []string{localConfig, systemConfig} {
		if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
			return path
		}
	}
	return ""
}

// needConfig is findConfig for commands that cannot do without.
func (c *cli) needConfig() (string, error) {
	path := c.findConfig()
	if path == "" {
		return "", &failure{
			exit: daemon.ExitConfig, code: "config",
			msg:  "no config file: neither " + localConfig + " here nor " + systemConfig,
			hint: "give one with --config",
		}
	}
	return path, nil
}

func (c *cli) loadConfig() (*config.Config, error) {
	path, err := c.needConfig()
	if err != nil {
		return nil, err
	}
	return config.Load(path, config.Options{})
}

// address is where a store is, and what may be shown of that.
type address struct{ value, shown string }

func newAddress(value, written string) address {
	if written != value {
		return address{value, written} // `${…}`: what it stands for is a secret
	}
	return address{value, daemon.Redact(value)}
}

// storeAddress is where the store is. It needs no config file, and one with
// faults elsewhere will do.
func (c *cli) storeAddress() (address, error) {
	if c.storeURL != "" {
		return newAddress(c.storeURL, c.storeURL), nil
	}
	path := c.findConfig()
	if path == "" {
		return newAddress(defaultStore, defaultStore), nil
	}
	store, err := config.StoreOf(path, config.Options{})
	return newAddress(store.Value, store.Written), err
}

// noStoreHint says how a store comes to be.
func (c *cli) noStoreHint() string {
	if store, err := c.storeAddress(); err == nil && !strings.HasPrefix(store.value, "sqlite:") {
		return "create the database; `tidemark run` makes the schema in it, and so does `tidemark migrate`"
	}
	return "`tidemark run` makes it, and so does `tidemark migrate`; --store names another"
}

// openStore opens the store to read it and to leave requests in it. It never
// makes one.
func (c *cli) openStore(cmd *cobra.Command) (jobstore.Store, error) {
	store, err := c.storeAddress()
	if err != nil {
		return nil, err
	}
	return daemon.OpenStore(cmd.Context(), store.value, daemon.StoreOptions{Log: zap.NewNop()})
}

// withStore calls do with the open store.
func (c *cli) withStore(cmd *cobra.Command, do func(jobstore.Store) error) error {
	store, err := c.openStore(cmd)
	if err != nil {
		return err
	}
	return errors.Join(do(store), store.Close())
}

// logger writes to standard error.
func (c *cli) logger() *zap.Logger {
	level := zap.NewAtomicLevel()
	_ = level.UnmarshalText([]byte(c.logLevel)) // checked with the flags
	enc := zap.NewProductionEncoderConfig()
	enc.TimeKey = "time"
	enc.EncodeTime = zapcore.RFC3339NanoTimeEncoder
	enc.EncodeDuration = zapcore.StringDurationEncoder
	encoder := zapcore.NewJSONEncoder(enc)
	if c.logFormat == "console" {
		enc.EncodeTime = zapcore.TimeEncoderOfLayout("2006-01-02T15:04:05.000Z07:00")
		enc.EncodeLevel = zapcore.CapitalLevelEncoder
		encoder = zapcore.NewConsoleEncoder(enc)
	}
	sink := zapcore.Lock(zapcore.AddSync(c.err))
	return zap.New(zapcore.NewCore(encoder, sink, level))
}

// whoami names the person behind a request: user@host.
func whoami() string {
	name := os.Getenv("USER")
	if u, err := user.Current(); err == nil {
		name = u.Username
	}
	if name == "" {
		name = "unknown"
	}
	host, err := os.Hostname()
	if err != nil {
		return name
	}
	return name + "@" + host
}
