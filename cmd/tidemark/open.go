package main

import (
	"errors"
	"io/fs"
	"os"
	"os/user"

	"github.com/spf13/cobra"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/tidemarkd/tidemark/internal/config"
	"github.com/tidemarkd/tidemark/internal/daemon"
	"github.com/tidemarkd/tidemark/internal/executor"
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

// storeAddress is where the store is. It needs no config file, and one with
// faults elsewhere will do.
func (c *cli) storeAddress() (executor.Text, error) {
	if c.storeURL != "" {
		return executor.Plain(c.storeURL), nil
	}
	path := c.findConfig()
	if path == "" {
		return executor.Plain(defaultStore), nil
	}
	return config.StoreOf(path, config.Options{})
}

// openStore opens the store to read it and to leave requests in it. It never
// makes one.
func (c *cli) openStore(cmd *cobra.Command) (jobstore.Store, error) {
	address, err := c.storeAddress()
	if err != nil {
		return nil, err
	}
	return daemon.OpenStore(cmd.Context(), address.Value, daemon.StoreOptions{Log: zap.NewNop()})
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

// shownStore is a store's address as it may be shown.
func shownStore(address executor.Text) string {
	if address.Written != address.Value {
		return address.Written // `${…}`: what it stands for is a secret
	}
	return daemon.Redact(address.Value)
}
