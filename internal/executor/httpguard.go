package executor

import (
	"context"
	"encoding/binary"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// refusal is a request that Tidemark itself does not send. Its text holds no
// secret.
type refusal struct{ text string }

func (r *refusal) Error() string { return r.text }

// guard keeps requests from link-local addresses, where clouds hand out their
// machines' credentials, in any spelling (interfaces 2; pitfall "Metadata
// address as target"). Loopback and private networks are targets like others.
type guard struct{ allow bool }

var errLinkLocal = &refusal{"link-local and metadata addresses are refused"}

// host refuses by name, before anything is looked up. What a name resolves to
// is seen by control.
func (g guard) host(name string) error {
	if g.allow {
		return nil
	}
	name = strings.Map(foldDigit, strings.ToLower(name))
	name = strings.TrimRight(name, ".")
	if slices.Contains(metadataNames(), name) {
		return errLinkLocal
	}
	if addr, ok := parseHost(name); ok && linkLocal(addr) {
		return errLinkLocal
	}
	return nil
}

// control refuses by address, at the moment of connecting, so that neither DNS
// nor a redirect nor a spelling that only a resolver knows gets round it.
func (g guard) control(_ context.Context, _, address string, _ syscall.RawConn) error {
	if g.allow {
		return nil
	}
	end, err := netip.ParseAddrPort(address)
	if err != nil || linkLocal(end.Addr()) {
		return errLinkLocal
	}
	return nil
}

// metadataNames are names by which clouds know their metadata services.
func metadataNames() []string {
	return []string{
		"metadata", "metadata.google.internal", "metadata.goog", "instance-data", "instance-data.ec2.internal",
		"metadata.tencentyun.com", "metadata.platformequinix.com", "metadata.packet.net",
	}
}

// foldDigit undoes what IDNA mapping will: wide digits, letters and dots.
func foldDigit(r rune) rune {
	switch {
	case r >= '！' && r <= '～': // full-width forms of ! to ~
		return r - '！' + '!'
	case r == '。' || r == '｡':
		return '.'
	}
	return r
}

// parseHost reads an address in every form that inet_aton(3) or a browser
// takes: one to four parts, each decimal, octal or hexadecimal, the last one
// filling what is left; or IPv6.
func parseHost(name string) (netip.Addr, bool) {
	if addr, err := netip.ParseAddr(name); err == nil {
		return addr, true
	}
	parts := strings.Split(name, ".")
	if len(parts) > 4 {
		return netip.Addr{}, false
	}
	value := uint64(0)
	for i, part := range parts {
		n, ok := parseNumber(part)
		room := uint(8)
		if i == len(parts)-1 {
			room = uint(8 * (5 - len(parts)))
		}
		if !ok || n >= 1<<room {
			return netip.Addr{}, false
		}
		value = value<<room | n
	}
	var raw [4]byte
	binary.BigEndian.PutUint32(raw[:], uint32(value))
	return netip.AddrFrom4(raw), true
}

func parseNumber(part string) (uint64, bool) {
	base, digits := 10, part
	switch {
	case strings.HasPrefix(part, "0x"):
		base, digits = 16, part[2:]
		if digits == "" {
			return 0, true
		}
	case len(part) > 1 && part[0] == '0':
		base, digits = 8, part[1:]
	}
	n, err := strconv.ParseUint(digits, base, 32)
	return n, err == nil && digits[0] != '+'
}

// linkLocal reports whether addr is link-local or a metadata service, itself or
// as the IPv4 address within an IPv6 one that some gateway would unpack.
func linkLocal(addr netip.Addr) bool {
	addr = addr.WithZone("").Unmap()
	for _, prefix := range []string{
		"169.254.0.0/16",         // RFC 3927; AWS, Google, Azure and most others at 169.254.169.254
		"100.100.100.200/32",     // Alibaba
		"192.0.0.192/32",         // Oracle, formerly
		"168.63.129.16/32",       // Azure, the host's agent
		"fe80::/10",              // RFC 4291
		"ff02::/16",              // link-local multicast
		"fd00:ec2::/32",          // AWS: fd00:ec2::254 and its neighbours
		"fd20:ce::254/128",       // Google
		"fd00:42::42/128",        // Scaleway
		"fd00:c1::a9fe:a9fe/128", // Oracle
	} {
		if netip.MustParsePrefix(prefix).Contains(addr) {
			return true
		}
	}
	return addr.Is6() && slices.ContainsFunc(embedded(addr.As16()), linkLocal)
}

// embedded lists the IPv4 addresses that an IPv6 one may stand for.
func embedded(raw [16]byte) []netip.Addr {
	at := func(i int) netip.Addr { return netip.AddrFrom4([4]byte(raw[i : i+4])) }
	addr := netip.AddrFrom16(raw)
	within := func(prefix string) bool { return netip.MustParsePrefix(prefix).Contains(addr) }
	switch {
	case within("64:ff9b::/96"), within("::/96"): // NAT64 (RFC 6052); IPv4-compatible (RFC 4291)
		return []netip.Addr{at(12)}
	case within("64:ff9b:1::/48"): // local NAT64 (RFC 8215): /48, /56, /64 or /96 (RFC 6052, 2.2)
		return []netip.Addr{
			at(12),
			netip.AddrFrom4([4]byte{raw[6], raw[7], raw[9], raw[10]}),
			netip.AddrFrom4([4]byte{raw[7], raw[9], raw[10], raw[11]}),
			at(9),
		}
	case within("2002::/16"): // 6to4 (RFC 3056)
		return []netip.Addr{at(2)}
	case within("2001::/32"): // Teredo (RFC 4380): server, and client with its bits turned
		return []netip.Addr{at(4), netip.AddrFrom4([4]byte{^raw[12], ^raw[13], ^raw[14], ^raw[15]})}
	case raw[10] == 0x5e && raw[11] == 0xfe && raw[9] == 0 && raw[8]&^0x02 == 0: // ISATAP (RFC 5214)
		return []netip.Addr{at(12)}
	}
	return nil
}
