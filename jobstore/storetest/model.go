package storetest

import "testing"

func runModel(t *testing.T, open Open) {}
