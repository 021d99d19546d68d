package executor

import (
	"context"

	"github.com/tidemarkd/tidemark/scheduler"
)

// HTTPConfig is a job's `http`.
type HTTPConfig struct {
	Method         string          `yaml:"method"` // default: POST with a body, else GET
	URL            Text            `yaml:"url"`
	Headers        map[string]Text `yaml:"headers"`
	Body           Text            `yaml:"body"`
	Expect         []int           `yaml:"expect"` // default: any 2xx
	AllowLinkLocal bool            `yaml:"allow_link_local"`
}

// HTTP sends a request.
type HTTP struct {
	config HTTPConfig
	common Common
}

// Validate says what is wrong with c: FieldErrors, joined.
func (c HTTPConfig) Validate(common Common) error {
	_, err := NewHTTP(c, common)
	return err
}

// NewHTTP is the executor of c. It does no I/O; its errors are FieldErrors, joined.
func NewHTTP(c HTTPConfig, common Common) (*HTTP, error) {
	return &HTTP{config: c, common: common}, nil
}

// Execute implements scheduler.Executor.
func (h *HTTP) Execute(ctx context.Context, try scheduler.Try) scheduler.Result {
	return scheduler.Result{}
}
