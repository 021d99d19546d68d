// Package checkpoint keeps how far work on a database has got, in that database
// itself: what it says and what was done are committed together.
package checkpoint
