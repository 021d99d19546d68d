package checkpoint

// Statement is SQL with named parameters, checked and taken apart.
type Statement struct {
	text string
}
