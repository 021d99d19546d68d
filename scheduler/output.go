package scheduler

import (
	"sync"

	"github.com/tidemarkd/tidemark/jobstore"
)

// outputPart is how much of the first and of the last part of an attempt's
// output is kept, in bytes.
const outputPart = 64 << 10

// output keeps the first and the last part of what an attempt writes.
type output struct {
	mu   sync.Mutex
	head []byte
	tail []byte // the last bytes after head; at most twice outputPart before it is cut
	size int64
}

// Write never fails and never blocks for long.
func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	n := len(p)
	o.size += int64(n)
	if room := outputPart - len(o.head); room > 0 {
		cut := min(room, len(p))
		o.head, p = append(o.head, p[:cut]...), p[cut:]
	}
	if len(p) > outputPart {
		p = p[len(p)-outputPart:]
	}
	o.tail = append(o.tail, p...)
	if len(o.tail) > 2*outputPart {
		o.tail = append(o.tail[:0], o.tail[len(o.tail)-outputPart:]...)
	}
	return n, nil
}

// snapshot returns a copy of what there is.
func (o *output) snapshot() jobstore.Output {
	o.mu.Lock()
	defer o.mu.Unlock()
	tail := o.tail
	if len(tail) > outputPart {
		tail = tail[len(tail)-outputPart:]
	}
	return jobstore.Output{Head: append([]byte(nil), o.head...), Tail: append([]byte(nil), tail...), Size: o.size}
}

// written is how many bytes came so far.
func (o *output) written() int64 {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.size
}
