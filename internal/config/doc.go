// Package config turns the config file into checked jobs.
//
// A file goes through five steps. readSource reads it and has YAML parsed, and
// says what is wrong with the text. The binder puts the nodes into structs by
// their yaml tags: it is strict, remembers the place of every value, expands
// `${…}` and keeps everything as it was written beside what it means. inherit
// gives each job what `defaults:` says. jobCheck then holds one small function
// for each group of rules, and makes the scheduler.Job with the definition that
// the store keeps. At no step does a fault end the work: what is wrong is
// reported with file, line, column, field and hint, and all of it at once.
//
// # Secrets
//
// What a `${NAME}` or `${file:/path}` stands for is a secret. It is held by
// executor.Text and by the parsed value of durations, numbers and switches
// alone. Definitions, hashes and errors are made of what was written. Keys
// whose values the store keeps or shows in the clear (schedules, targets,
// names, labels …) therefore refuse a `${…}`.
//
// # Adding a key
//
// Add a field with a comment and a yaml tag to the struct in file.go, its
// default and choices in its jsonschema tag, a rule in the check file that it
// belongs to, a file in testdata/bad for each way to get it wrong, and a line
// in docs/configuration.md; then run go generate.
package config
