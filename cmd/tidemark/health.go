package main

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/tidemarkd/tidemark/internal/config"
)

const (
	defaultListen = "127.0.0.1:9720"
	// healthWait is less than what container engines give a health check.
	healthWait = 4 * time.Second
)

func (c *cli) healthCommand() *cobra.Command {
	var address string
	cmd := &cobra.Command{
		Use:   "health",
		Short: "Ask the daemon on this machine whether it lives",
		Long: `Asks the daemon on this machine whether it lives, as a container's health check
does: exit code 0 if it answers, else 1.`,
		Example: `  tidemark health
  tidemark health --url http://127.0.0.1:9721`,
		Args: wants(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if !cmd.Flags().Changed("url") {
				address = "http://" + reachable(c.listenAddress())
			}
			u, err := url.Parse(address)
			if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
				return usage(cmd, "--url: %q is no HTTP address", address).hinted("write one such as http://" + defaultListen)
			}
			if strings.Trim(u.Path, "/") == "" {
				u.Path = "/healthz"
			}
			return c.health(cmd.Context(), u)
		},
	}
	cmd.Flags().StringVar(&address, "url", "", "`address` of the daemon (default: listen of the config, else "+defaultListen+")")
	return cmd
}

// listenAddress is where the config says that the daemon listens. A config that
// has errors now does not make a living daemon ill.
func (c *cli) listenAddress() string {
	path := c.findConfig()
	if path == "" {
		return defaultListen
	}
	listen, err := config.ListenOf(path, config.Options{})
	if err != nil {
		return defaultListen
	}
	return listen
}

// reachable makes an address to listen on one to call.
func reachable(listen string) string {
	host, port, err := net.SplitHostPort(listen)
	if err != nil {
		return listen
	}
	switch ip := net.ParseIP(host); {
	case host == "", ip.Equal(net.IPv4zero):
		host = "127.0.0.1"
	case ip.Equal(net.IPv6unspecified):
		host = "::1"
	}
	return net.JoinHostPort(host, port)
}

func (c *cli) health(ctx context.Context, u *url.URL) error {
	ill := func(format string, args ...any) *failure {
		f := failed("unhealthy", format, args...)
		f.at = u.Redacted()
		return f
	}
	ctx, cancel := context.WithTimeout(ctx, healthWait)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return ill("ask the daemon: %s", err)
	}
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}} // no proxy: it is this machine
	resp, err := client.Do(req)
	if err != nil {
		return ill("the daemon does not answer: %s", err)
	}
	defer resp.Body.Close()
	body, _ := io.ReadAll(io.LimitReader(resp.Body, 1<<10))
	if resp.StatusCode != http.StatusOK {
		return ill("the daemon answers %s: %s", resp.Status, strings.TrimSpace(string(body)))
	}
	if c.json {
		return c.printJSON(map[string]any{"ok": true, "url": u.Redacted()})
	}
	c.println("ok")
	return nil
}
