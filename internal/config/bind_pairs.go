package config

import (
	"fmt"
	"strconv"

	"go.yaml.in/yaml/v4"
)

// pair is one key of a mapping and its value.
type pair struct{ key, value *yaml.Node }

// pairs returns the keys of a mapping, each once: its own first, then those
// that merge keys (`<<: *other`) add.
func (b *binder) pairs(sc *scope, path string, n *yaml.Node) ([]pair, bool) {
	if n.Kind != yaml.MappingNode {
		sc.fail(path, "wants a mapping of keys to values, has "+describe(n), mappingWanted(n))
		return nil, false
	}
	m := merger{b: b, sc: sc, path: path, seen: map[string]*yaml.Node{}}
	m.add(n, true)
	return m.pairs, m.good()
}

func mappingWanted(n *yaml.Node) string {
	if n.Kind == yaml.ScalarNode {
		return "write `key: value` lines below it, with a blank after each colon"
	}
	return ""
}

// merger flattens a mapping and what it merges.
type merger struct {
	b     *binder
	sc    *scope
	path  string
	seen  map[string]*yaml.Node
	pairs []pair
	over  bool // the bound on aliases was hit
}

func (m *merger) good() bool { return !m.over }

// add takes the keys of a mapping; own says that they stand in the mapping
// itself, where a repeated one is a fault, and not in one that it merges.
func (m *merger) add(n *yaml.Node, own bool) {
	var merged []*yaml.Node
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		resolved, ok := m.b.resolve(m.sc, m.path, key)
		if !ok {
			m.over = true
			return
		}
		switch first, repeated := m.seen[resolved.Value]; {
		case resolved.Kind != yaml.ScalarNode:
			m.b.failKey(m.sc, m.path, key, "a key must be a single value, this is "+describe(resolved), "")
		case resolved.Tag == "!!merge":
			merged = append(merged, value)
		case holdsVariable(resolved.Value):
			m.b.failKey(m.sc, join(m.path, resolved.Value), key, "${…} has no place in a key", "write the key out")
		case repeated && own:
			m.b.failKey(m.sc, join(m.path, resolved.Value), key, "repeated key", fmt.Sprintf("it stands on line %d already", first.Line))
		case !repeated:
			m.seen[resolved.Value] = key
			m.pairs = append(m.pairs, pair{at(resolved, key), value})
		}
	}
	for _, value := range merged {
		m.merge(value)
	}
}

// merge adds the mapping, or the mappings of the list, that `<<` names.
func (m *merger) merge(value *yaml.Node) {
	n, ok := m.b.resolve(m.sc, m.path, value)
	switch {
	case !ok:
		m.over = true
	case n.Kind == yaml.MappingNode:
		m.add(n, false)
	case n.Kind == yaml.SequenceNode:
		for _, item := range n.Content {
			if item, ok := m.b.resolve(m.sc, m.path, item); ok && item.Kind == yaml.MappingNode {
				m.add(item, false)
			} else if ok {
				m.b.failKey(m.sc, m.path, item, "<< wants mappings, has "+describe(item), "")
			}
		}
	default:
		m.b.failKey(m.sc, m.path, value, "<< wants a mapping, has "+describe(n), "write <<: *anchor")
	}
}

// at returns the key with the place of the node that stands for it.
func at(resolved, key *yaml.Node) *yaml.Node {
	if resolved == key {
		return key
	}
	placed := *resolved
	placed.Line, placed.Column = key.Line, key.Column
	return &placed
}

// printable quotes a name that would break the line of an error, and shortens
// one that would fill it.
func printable(name string) string {
	if len(name) > maxNameBytes {
		name = clip(name)
	}
	for _, r := range name {
		if !strconv.IsPrint(r) {
			return strconv.Quote(name)
		}
	}
	return name
}
