//! A TCP segment as a capture shows it, and how the bytes of a packet become one: link layer, tunnels, IP, TCP. Only headers are
//! read, so that captures with a short snapshot length are as good as others.

use std::net::{IpAddr, SocketAddr};

use etherparse::{LaxIpSlice, TcpHeaderSlice, TcpOptionElement, ip_number};

use super::source::PacketHead;

/// Tunnels within tunnels that are followed.
const TUNNELS_MOST: u32 = 4;

/// Tags of VLANs that are followed.
const TAGS_MOST: u32 = 4;

/// UDP ports of VXLAN: IANA's, and Linux' own default.
const VXLAN_PORTS: [u16; 2] = [4789, 8472];

mod ether_type {
    pub const IPV4: u16 = 0x0800;
    pub const IPV6: u16 = 0x86dd;
    pub const VLAN: [u16; 3] = [0x8100, 0x88a8, 0x9100];
    pub const BRIDGED: u16 = 0x6558;
}

/// Link types (`LINKTYPE_*`, tcpdump.org/linktypes.html).
mod link {
    pub const NULL: i32 = 0;
    pub const ETHERNET: i32 = 1;
    pub const RAW: [i32; 5] = [12, 14, 101, 228, 229];
    pub const LOOP: i32 = 108;
    pub const LINUX_SLL: i32 = 113;
    pub const LINUX_SLL2: i32 = 276;
}

/// TCP options of a segment that the import reads.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SegmentOptions {
    /// Largest segment that the sender takes; in SYNs.
    pub mss: Option<u16>,
    /// Shift of the sender's window; in SYNs.
    pub window_shift: Option<u8>,
    /// Whether the sender takes selective acknowledgements; in SYNs.
    pub is_sack_permitted: bool,
    /// Blocks that arrived out of order, or twice.
    pub sack: [Option<(u32, u32)>; 4],
    /// The sender's timestamp, and the one that it echoes.
    pub timestamps: Option<(u32, u32)>,
}

/// A TCP segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Segment {
    /// When it was captured, since 1970.
    pub time_ns: u64,
    /// Source address and port.
    pub source: SocketAddr,
    /// Destination address and port.
    pub target: SocketAddr,
    /// Sequence number.
    pub seq: u32,
    /// Acknowledgement number.
    pub ack: Option<u32>,
    /// SYN.
    pub is_syn: bool,
    /// FIN.
    pub is_fin: bool,
    /// RST.
    pub is_rst: bool,
    /// Window, not scaled.
    pub window: u16,
    /// Bytes of payload.
    pub bytes: u32,
    /// Options.
    pub options: SegmentOptions,
    /// IPv4's identification; `None`: IPv6.
    pub ip_id: Option<u16>,
    /// Whether a router marked congestion.
    pub is_marked: bool,
}

/// Converts a packet to a segment; the error says why it has no TCP segment.
pub fn parse(head: PacketHead, data: &[u8]) -> Result<Segment, &'static str> {
    let packet = Packet {
        time_ns: head.time_ns,
        cut_bytes: (head.wire_bytes as usize).saturating_sub(data.len()),
        tunnels: 0,
    };
    match head.link {
        link::ETHERNET => packet.parse_ethernet(data),
        kind if link::RAW.contains(&kind) => packet.parse_ip(data),
        link::NULL | link::LOOP => packet.parse_ip(bytes_after(data, 4)?),
        link::LINUX_SLL => packet.parse_type(read_u16(data, 14)?, bytes_after(data, 16)?),
        link::LINUX_SLL2 => packet.parse_type(read_u16(data, 0)?, bytes_after(data, 20)?),
        _ => Err("of a link type that whylat does not read"),
    }
}

const CUT: &str = "cut before the TCP header's end";
const NO_TCP: &str = "no TCP";

/// Returns the data behind `bytes` bytes; an error if it is cut off.
fn bytes_after(data: &[u8], bytes: usize) -> Result<&[u8], &'static str> {
    data.get(bytes..).ok_or(CUT)
}

/// Reads a number of network byte order; an error if it is cut off.
fn read_u16(data: &[u8], at: usize) -> Result<u16, &'static str> {
    let bytes = data.get(at..at + 2).ok_or(CUT)?;
    Ok(u16::from_be_bytes([bytes[0], bytes[1]]))
}

/// A packet on its way through its layers.
#[derive(Debug, Clone, Copy)]
struct Packet {
    time_ns: u64,
    /// Bytes that the capture left out.
    cut_bytes: usize,
    tunnels: u32,
}

impl Packet {
    /// Reads an Ethernet frame down to its TCP segment; the error says why it has none.
    fn parse_ethernet(self, data: &[u8]) -> Result<Segment, &'static str> {
        self.parse_type(read_u16(data, 12)?, bytes_after(data, 14)?)
    }

    /// Reads what an EtherType announces; skips VLAN tags.
    fn parse_type(self, kind: u16, data: &[u8]) -> Result<Segment, &'static str> {
        let (mut kind, mut data) = (kind, data);
        for _ in 0..TAGS_MOST {
            if !ether_type::VLAN.contains(&kind) {
                break;
            }
            (kind, data) = (read_u16(data, 2)?, bytes_after(data, 4)?);
        }
        match kind {
            ether_type::IPV4 | ether_type::IPV6 => self.parse_ip(data),
            ether_type::BRIDGED => self.within_tunnel()?.parse_ethernet(data),
            _ => Err(NO_TCP),
        }
    }

    /// Counts one more tunnel around the packet; an error if they are too many.
    fn within_tunnel(self) -> Result<Self, &'static str> {
        let tunnels = self.tunnels + 1;
        match tunnels > TUNNELS_MOST {
            true => Err("within too many tunnels"),
            false => Ok(Self { tunnels, ..self }),
        }
    }

    /// Reads an IP packet down to its TCP segment.
    fn parse_ip(self, data: &[u8]) -> Result<Segment, &'static str> {
        let (ip, _) = LaxIpSlice::from_slice(data).map_err(|_| "no IP, or cut before its end")?;
        let payload = ip.payload();
        if payload.fragmented {
            return Err("fragments of IP");
        }
        let begin = payload.payload.as_ptr() as usize - data.as_ptr() as usize;
        let (declared, id, is_marked) = match &ip {
            LaxIpSlice::Ipv4(ip) => {
                let header = ip.header();
                let bytes = usize::from(header.total_len());
                (bytes, Some(header.identification()), header.ecn().value())
            }
            LaxIpSlice::Ipv6(ip) => {
                let header = ip.header();
                let bytes = usize::from(header.payload_length());
                let bytes = if bytes == 0 { 0 } else { bytes + 40 };
                (bytes, None, header.ecn().value())
            }
        };
        // Segments that the network adapter is to cut have no length, if they are longer than it can say.
        let whole = match declared {
            0 => data.len() + self.cut_bytes,
            bytes => bytes,
        };
        let ends = (ip.source_addr(), ip.destination_addr());
        match payload.ip_number {
            ip_number::TCP => {
                let segment = self.parse_tcp(ends, payload.payload, whole.saturating_sub(begin))?;
                Ok(Segment {
                    ip_id: id,
                    is_marked: is_marked == 3,
                    ..segment
                })
            }
            ip_number::IPV4 | ip_number::IPV6 => self.within_tunnel()?.parse_ip(payload.payload),
            ip_number::GRE => self.parse_gre(payload.payload),
            ip_number::UDP => self.parse_vxlan(payload.payload),
            _ => Err(NO_TCP),
        }
    }

    /// Reads a GRE packet (RFC 2784 and 2890) and what is in the tunnel.
    fn parse_gre(self, data: &[u8]) -> Result<Segment, &'static str> {
        let flags = read_u16(data, 0)?;
        let optional = (flags & 0xb000).count_ones() as usize;
        if flags & 0x4007 != 0 {
            return Err("GRE of a version that whylat does not read");
        }
        let inner = bytes_after(data, 4 + 4 * optional)?;
        self.within_tunnel()?.parse_type(read_u16(data, 2)?, inner)
    }

    /// Reads a VXLAN packet (RFC 7348) and the frame in the tunnel.
    fn parse_vxlan(self, data: &[u8]) -> Result<Segment, &'static str> {
        let is_vxlan = VXLAN_PORTS.contains(&read_u16(data, 2)?) && data.get(8) == Some(&0x08);
        if !is_vxlan {
            return Err(NO_TCP);
        }
        self.within_tunnel()?.parse_ethernet(bytes_after(data, 16)?)
    }

    /// Reads a TCP header, and the length of its data.
    fn parse_tcp(
        self,
        (source, target): (IpAddr, IpAddr),
        data: &[u8],
        whole: usize,
    ) -> Result<Segment, &'static str> {
        let fixed: &[u8; 20] = data.first_chunk().ok_or(CUT)?;
        let header_bytes = usize::from(fixed[12] >> 4) * 4;
        if header_bytes < fixed.len() {
            return Err("damaged: its TCP header is too short");
        }
        // Options may be cut off: all else is in the part of a fixed length.
        let mut short = *fixed;
        short[12] = 5 << 4;
        let is_cut = data.len() < header_bytes;
        let bytes = if is_cut { &short[..] } else { data };
        let tcp = TcpHeaderSlice::from_slice(bytes).map_err(|_| CUT)?;
        let bytes = whole.saturating_sub(header_bytes);
        Ok(Segment {
            time_ns: self.time_ns,
            source: SocketAddr::new(source, tcp.source_port()),
            target: SocketAddr::new(target, tcp.destination_port()),
            seq: tcp.sequence_number(),
            ack: tcp.ack().then(|| tcp.acknowledgment_number()),
            is_syn: tcp.syn(),
            is_fin: tcp.fin(),
            is_rst: tcp.rst(),
            window: tcp.window_size(),
            bytes: u32::try_from(bytes).unwrap_or(u32::MAX).min(1 << 30),
            options: read_options(&tcp),
            ip_id: None,
            is_marked: false,
        })
    }
}

/// Reads the TCP options that analysis uses; ignores others.
fn read_options(tcp: &TcpHeaderSlice<'_>) -> SegmentOptions {
    let mut options = SegmentOptions::default();
    for option in tcp.options_iterator().flatten() {
        match option {
            TcpOptionElement::MaximumSegmentSize(mss) => options.mss = Some(mss),
            TcpOptionElement::WindowScale(shift) => options.window_shift = Some(shift.min(14)),
            TcpOptionElement::SelectiveAcknowledgementPermitted => {
                options.is_sack_permitted = true;
            }
            TcpOptionElement::SelectiveAcknowledgement(first, others) => {
                let [second, third, fourth] = others;
                options.sack = [Some(first), second, third, fourth];
            }
            TcpOptionElement::Timestamp(own, echo) => options.timestamps = Some((own, echo)),
            TcpOptionElement::Noop => {}
        }
    }
    options
}
