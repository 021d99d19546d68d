package archtest

import (
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
)

// Every test that docs/guarantees.md names exists, so that no guarantee stands
// on a test that is gone.
func TestEveryGuaranteeHasItsTest(t *testing.T) {
	page, err := os.ReadFile("../../docs/guarantees.md")
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("grep", "-rhoE", `func (Test|Fuzz)[A-Za-z0-9_]+|\{"[^"]+", test[A-Za-z]+\}`, "--include=*.go", ".")
	cmd.Dir = "../.."
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	sources := string(out)
	named := 0
	for _, row := range strings.Split(string(page), "\n") {
		if !strings.HasPrefix(row, "| ") || strings.HasPrefix(row, "| rule") || strings.HasPrefix(row, "| ---") {
			continue
		}
		cells := strings.Split(row, " | ")
		shown := cells[len(cells)-1]
		tests := regexp.MustCompile("`((?:Test|Fuzz)[A-Za-z0-9_]+)`").FindAllStringSubmatch(shown, -1)
		cases := regexp.MustCompile(`"([^"]+)"`).FindAllStringSubmatch(shown, -1)
		if len(tests)+len(cases) == 0 {
			t.Errorf("no test stands behind %q", cells[0])
		}
		for _, m := range tests {
			if named++; !strings.Contains(sources, "func "+m[1]+"\n") {
				t.Errorf("there is no %s", m[1])
			}
		}
		for _, m := range cases {
			if named++; !strings.Contains(sources, `{"`+m[1]+`", test`) {
				t.Errorf("the suite has no case %q", m[1])
			}
		}
	}
	if named < 40 {
		t.Errorf("only %d tests are named", named)
	}
}
