package executor

import (
	"context"

	"github.com/tidemarkd/tidemark/scheduler"
)

// ExecConfig is a job's `exec`.
type ExecConfig struct {
	// Command is a program and its arguments, or with Shell one script for
	// /bin/sh.
	Command    []Text          `yaml:"command"`
	Shell      bool            `yaml:"shell"`
	Env        map[string]Text `yaml:"env"`
	Dir        Text            `yaml:"dir"`
	User       string          `yaml:"user"`
	Stdin      Text            `yaml:"stdin"`
	InheritEnv bool            `yaml:"inherit_env"`
}

// Exec runs a command.
type Exec struct {
	config ExecConfig
	common Common
}

// Validate says what is wrong with c: FieldErrors, joined.
func (c ExecConfig) Validate(common Common) error {
	_, err := NewExec(c, common)
	return err
}

// NewExec is the executor of c. It does no I/O; its errors are FieldErrors, joined.
func NewExec(c ExecConfig, common Common) (*Exec, error) {
	return &Exec{config: c, common: common}, nil
}

// Execute implements scheduler.Executor.
func (e *Exec) Execute(ctx context.Context, try scheduler.Try) scheduler.Result {
	return scheduler.Result{}
}
