package config

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"maps"
	"reflect"
	"strings"

	"github.com/tidemarkd/tidemark/jobstore"
	"github.com/tidemarkd/tidemark/scheduler"
)

// definition is what the store keeps of the job: everything as written, so
// that no secret is stored and a rotated one changes nothing.
func (c *jobCheck) definition(spec scheduler.ScheduleSpec, kind string) jobstore.Definition {
	text := canonical(c.whole(spec))
	work := canonical(c.written[kind])
	def := jobstore.Definition{
		Name:         c.name,
		JSON:         text,
		Hash:         digest(text),
		Schedule:     canonical(storable(spec)),
		Fingerprint:  digest([]byte(kind), []byte{0}, work),
		Overlap:      c.overlapPolicy(),
		Coalesce:     jobstore.Coalesce(c.Coalesce),
		MaxInstances: c.maxInstances(),
		Windowed:     c.windowed(),
		UsesWindow:   c.usesWindow(),
		FilePaused:   c.Paused,
	}
	if c.has("watermark_start") {
		def.WatermarkStart = jobstore.Instant(c.WatermarkStart)
	}
	return def
}

// whole is the job with everything that it leaves out filled in: what a default
// says and what the job says in the same words are one definition.
func (c *jobCheck) whole(spec scheduler.ScheduleSpec) map[string]any {
	whole := maps.Clone(c.written)
	fill(whole, jobType)
	whole["name"] = c.name
	whole["timezone"] = spec.Timezone
	whole["overlap"] = string(c.overlapPolicy())
	if n := c.maxInstances(); n > 0 {
		whole["max_instances"] = n
	}
	return whole
}

// fill adds the defaults of a struct's keys to what was written of it.
func fill(written map[string]any, t reflect.Type) {
	for name, f := range fieldsOf(t) {
		given, has := written[name]
		if inner, isMapping := given.(map[string]any); isMapping && f.typ.Kind() == reflect.Struct {
			inner = maps.Clone(inner)
			fill(inner, f.typ)
			written[name] = inner
			continue
		}
		if text := defaultOf(f.tag); text != "" && !has {
			written[name] = defaultValue(text)
		}
	}
}

// defaultOf is the default in a field's jsonschema tag.
func defaultOf(tag reflect.StructTag) string {
	for part := range strings.SplitSeq(tag.Get("jsonschema"), ",") {
		if text, ok := strings.CutPrefix(part, "default="); ok {
			return text
		}
	}
	return ""
}

// defaultValue is a default in the form in which asWritten gives it.
func defaultValue(text string) any {
	switch {
	case text == "true" || text == "false":
		return text == "true"
	case decimalForm.MatchString(text):
		return json.Number(text)
	}
	return text
}

// storable is the spec in the form that says the same when it stands alone. A
// zone of the file beside one of an expression is a contradiction there: the
// expressions without a zone of their own get it written before them.
func storable(spec scheduler.ScheduleSpec) scheduler.ScheduleSpec {
	zoned := 0
	for _, text := range spec.Expressions {
		if hasZone(text) {
			zoned++
		}
	}
	if zoned == 0 || !spec.TimezoneIsDefault {
		return spec
	}
	all := make([]string, len(spec.Expressions))
	for i, text := range spec.Expressions {
		if all[i] = text; !hasZone(text) {
			all[i] = "TZ=" + spec.Timezone + " " + strings.TrimSpace(text)
		}
	}
	spec.Expressions, spec.Timezone = all, ""
	return spec
}

// hasZone reports whether an expression begins with a zone of its own.
func hasZone(text string) bool {
	return strings.HasPrefix(strings.TrimPrefix(strings.TrimSpace(text), "CRON_"), "TZ=")
}

// hashOf tells files apart whose jobs differ; where a node listens and what it is
// called is its own affair.
func hashOf(jobs []Job) string {
	hashes := map[string]string{}
	for _, j := range jobs {
		hashes[j.Name] = j.Hash
	}
	return digest(canonical(hashes))
}

// canonical is the one JSON text of a value: keys sorted, nothing escaped that
// need not be.
func canonical(value any) []byte {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(value); err != nil {
		panic("config: a bound value is always JSON: " + err.Error())
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}

func digest(parts ...[]byte) string {
	h := sha256.New()
	for _, p := range parts {
		h.Write(p)
	}
	return hex.EncodeToString(h.Sum(nil))
}
