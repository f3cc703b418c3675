//! `ip("10.0.0.1").family()`, `cidr("10.0.0.0/8").containsIP("10.1.2.3")`, `url("https://a/b").getHost()`.
//!
//! Source: `k8s.io/apiserver/pkg/cel/library/{ip,cidr,urls}.go`.

use std::any::Any;
use std::collections::{BTreeMap, HashMap};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::OnceLock;

use cel::common::types::{CelBool, CelInt, CelList, CelMap, CelMapKey, CelString, STRING_TYPE, Type};
use cel::common::value::{CowVal, StaticVal, Val};
use cel::{DeclarationError, Env};
use url::Url;

use super::{Answer, arg, failed, opaque};

macro_rules! value {
    ($name:ident, $inner:ty, $cel:literal) => {
        #[derive(Clone, Debug)]
        struct $name($inner);

        impl $name {
            fn declared() -> Type {
                opaque($cel)
            }

            fn type_() -> &'static Type {
                static TYPE: OnceLock<Type> = OnceLock::new();
                TYPE.get_or_init(Self::declared)
            }
        }

        impl Val for $name {
            fn get_type(&self) -> &Type {
                Self::type_()
            }

            fn cel_type() -> &'static Type {
                Self::type_()
            }

            fn equals(&self, other: &dyn Val) -> bool {
                other.downcast_ref::<Self>().is_some_and(|other| other.0 == self.0)
            }

            fn clone_as_boxed<'v>(&self) -> Box<dyn Val + 'v>
            where
                Self: 'v,
            {
                Box::new(self.clone())
            }

            fn as_any(&self) -> Option<&dyn Any> {
                Some(self)
            }
        }

        impl StaticVal for $name {}
    };
}

value!(CelIp, IpAddr, "net.IP");
value!(CelCidr, Cidr, "net.CIDR");
value!(CelUrl, Url, "kubernetes.URL");

/// An address with the length of its network's prefix, in bits.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Cidr {
    address: IpAddr,
    prefix: u32,
}

impl Cidr {
    fn parse(text: &str) -> Option<Self> {
        let (address, prefix) = text.split_once('/')?;
        let (address, prefix) = (parse_ip(address)?, prefix.parse().ok()?);
        (prefix <= bits(address)).then_some(Self { address, prefix })
    }

    fn masked(self) -> Self {
        Self { address: mask(self.address, self.prefix), ..self }
    }

    fn contains(self, address: IpAddr) -> bool {
        bits(address) == bits(self.address) && mask(address, self.prefix) == mask(self.address, self.prefix)
    }
}

fn bits(address: IpAddr) -> u32 {
    if address.is_ipv4() { 32 } else { 128 }
}

fn mask(address: IpAddr, prefix: u32) -> IpAddr {
    match address {
        IpAddr::V4(v4) => {
            let mask = u32::MAX.checked_shl(32 - prefix.min(32)).unwrap_or(0);
            IpAddr::V4(Ipv4Addr::from(u32::from(v4) & mask))
        }
        IpAddr::V6(v6) => {
            let mask = u128::MAX.checked_shl(128 - prefix.min(128)).unwrap_or(0);
            IpAddr::V6(Ipv6Addr::from(u128::from(v6) & mask))
        }
    }
}

/// IPv4 addresses within IPv6 are none, as upstream has it.
fn parse_ip(text: &str) -> Option<IpAddr> {
    let address: IpAddr = text.parse().ok()?;
    match address {
        IpAddr::V6(v6) if v6.to_ipv4_mapped().is_some() => None,
        address => Some(address),
    }
}

fn to_ip(text: &str) -> Result<IpAddr, cel::ExecutionError> {
    parse_ip(text).ok_or_else(|| failed(format!("IP Address {text:?} parse error during conversion from string")))
}

fn to_cidr(text: &str) -> Result<Cidr, cel::ExecutionError> {
    Cidr::parse(text)
        .ok_or_else(|| failed(format!("network address parse error during conversion from string: {text:?}")))
}

pub(super) fn register(env: &mut Env) -> Result<(), DeclarationError> {
    register_ips(env)?;
    register_cidrs(env)?;
    register_urls(env)
}

fn register_ips(env: &mut Env) -> Result<(), DeclarationError> {
    let of = CelIp::declared;
    env.add_type(of())?;
    env.add_overload("ip", "string_to_ip", vec![STRING_TYPE], |args| {
        Ok(CowVal::owned(CelIp(to_ip(text(&args, 0)?)?)))
    })?;
    env.add_overload("isIP", "is_ip", vec![STRING_TYPE], |args| boolean(parse_ip(text(&args, 0)?).is_some()))?;
    env.add_overload("ip.isCanonical", "ip_is_canonical", vec![STRING_TYPE], |args| {
        let text = text(&args, 0)?;
        boolean(to_ip(text)?.to_string() == text)
    })?;
    env.add_overload("string", "ip_to_string", vec![of()], |args| string(arg::<CelIp>(&args, 0)?.0.to_string()))?;
    env.add_member_overload("family", "ip_family", of(), vec![], |args| {
        integer(if arg::<CelIp>(&args, 0)?.0.is_ipv4() { 4 } else { 6 })
    })?;
    env.add_member_overload("isUnspecified", "ip_is_unspecified", of(), vec![], |args| {
        boolean(arg::<CelIp>(&args, 0)?.0.is_unspecified())
    })?;
    env.add_member_overload("isLoopback", "ip_is_loopback", of(), vec![], |args| {
        boolean(arg::<CelIp>(&args, 0)?.0.is_loopback())
    })?;
    env.add_member_overload("isLinkLocalMulticast", "ip_is_link_local_multicast", of(), vec![], |args| {
        boolean(match arg::<CelIp>(&args, 0)?.0 {
            IpAddr::V4(v4) => v4.octets()[..3] == [224, 0, 0],
            IpAddr::V6(v6) => v6.segments()[0] & 0xff0f == 0xff02,
        })
    })?;
    env.add_member_overload("isLinkLocalUnicast", "ip_is_link_local_unicast", of(), vec![], |args| {
        boolean(match arg::<CelIp>(&args, 0)?.0 {
            IpAddr::V4(v4) => v4.is_link_local(),
            IpAddr::V6(v6) => v6.is_unicast_link_local(),
        })
    })?;
    env.add_member_overload("isGlobalUnicast", "ip_is_global_unicast", of(), vec![], |args| {
        boolean(match arg::<CelIp>(&args, 0)?.0 {
            IpAddr::V4(v4) => {
                !v4.is_unspecified()
                    && !v4.is_loopback()
                    && !v4.is_multicast()
                    && !v4.is_link_local()
                    && !v4.is_broadcast()
            }
            IpAddr::V6(v6) => {
                !v6.is_unspecified() && !v6.is_loopback() && !v6.is_multicast() && !v6.is_unicast_link_local()
            }
        })
    })
}

fn register_cidrs(env: &mut Env) -> Result<(), DeclarationError> {
    let (of, ip) = (CelCidr::declared, CelIp::declared);
    env.add_type(of())?;
    env.add_overload("cidr", "string_to_cidr", vec![STRING_TYPE], |args| {
        Ok(CowVal::owned(CelCidr(to_cidr(text(&args, 0)?)?)))
    })?;
    env.add_overload("isCIDR", "is_cidr", vec![STRING_TYPE], |args| boolean(Cidr::parse(text(&args, 0)?).is_some()))?;
    env.add_overload("string", "cidr_to_string", vec![of()], |args| {
        let cidr = arg::<CelCidr>(&args, 0)?.0;
        string(format!("{}/{}", cidr.address, cidr.prefix))
    })?;
    env.add_member_overload("containsIP", "cidr_contains_ip_string", of(), vec![STRING_TYPE], |args| {
        boolean(arg::<CelCidr>(&args, 0)?.0.contains(to_ip(text(&args, 1)?)?))
    })?;
    env.add_member_overload("containsIP", "cidr_contains_ip_ip", of(), vec![ip()], |args| {
        boolean(arg::<CelCidr>(&args, 0)?.0.contains(arg::<CelIp>(&args, 1)?.0))
    })?;
    env.add_member_overload("containsCIDR", "cidr_contains_cidr_string", of(), vec![STRING_TYPE], |args| {
        let other = to_cidr(text(&args, 1)?)?;
        let cidr = arg::<CelCidr>(&args, 0)?.0;
        boolean(cidr.contains(other.address) && cidr.prefix <= other.prefix)
    })?;
    env.add_member_overload("containsCIDR", "cidr_contains_cidr", of(), vec![of()], |args| {
        let (cidr, other) = (arg::<CelCidr>(&args, 0)?.0, arg::<CelCidr>(&args, 1)?.0);
        boolean(cidr.contains(other.address) && cidr.prefix <= other.prefix)
    })?;
    env.add_member_overload("ip", "cidr_ip", of(), vec![], |args| {
        Ok(CowVal::owned(CelIp(arg::<CelCidr>(&args, 0)?.0.address)))
    })?;
    env.add_member_overload("masked", "cidr_masked", of(), vec![], |args| {
        Ok(CowVal::owned(CelCidr(arg::<CelCidr>(&args, 0)?.0.masked())))
    })?;
    env.add_member_overload("prefixLength", "cidr_prefix_length", of(), vec![], |args| {
        integer(i64::from(arg::<CelCidr>(&args, 0)?.0.prefix))
    })
}

/// Go's `url.ParseRequestURI` takes absolute URLs and paths; the latter get a base that is not shown.
const BASE: &str = "rewake-base://";

fn parse_url(text: &str) -> Option<Url> {
    let url = if text.starts_with('/') { Url::parse(&format!("{BASE}{text}")) } else { Url::parse(text) };
    url.ok()
}

fn register_urls(env: &mut Env) -> Result<(), DeclarationError> {
    let of = CelUrl::declared;
    env.add_type(of())?;
    env.add_overload("url", "string_to_url", vec![STRING_TYPE], |args| {
        let text = text(&args, 0)?;
        let url = parse_url(text).ok_or_else(|| {
            failed(format!("URL parse error during conversion from string: parse {text:?}: invalid URI for request"))
        })?;
        Ok(CowVal::owned(CelUrl(url)))
    })?;
    env.add_overload("isURL", "is_url_string", vec![STRING_TYPE], |args| {
        boolean(parse_url(text(&args, 0)?).is_some())
    })?;
    env.add_member_overload("getScheme", "url_get_scheme", of(), vec![], |args| {
        let scheme = arg::<CelUrl>(&args, 0)?.0.scheme();
        string(if BASE.starts_with(scheme) { "" } else { scheme }.to_owned())
    })?;
    env.add_member_overload("getHost", "url_get_host", of(), vec![], |args| {
        let url = &arg::<CelUrl>(&args, 0)?.0;
        let host = url.host_str().unwrap_or_default();
        string(match url.port() {
            Some(port) => format!("{host}:{port}"),
            None => host.to_owned(),
        })
    })?;
    env.add_member_overload("getHostname", "url_get_hostname", of(), vec![], |args| {
        let host = arg::<CelUrl>(&args, 0)?.0.host_str().unwrap_or_default().to_owned();
        string(host.trim_matches(['[', ']']).to_owned())
    })?;
    env.add_member_overload("getPort", "url_get_port", of(), vec![], |args| {
        string(arg::<CelUrl>(&args, 0)?.0.port().map(|port| port.to_string()).unwrap_or_default())
    })?;
    env.add_member_overload("getEscapedPath", "url_get_escaped_path", of(), vec![], |args| {
        string(arg::<CelUrl>(&args, 0)?.0.path().to_owned())
    })?;
    env.add_member_overload("getQuery", "url_get_query", of(), vec![], |args| {
        let mut query: BTreeMap<String, Vec<Box<dyn Val>>> = BTreeMap::new();
        for (name, value) in arg::<CelUrl>(&args, 0)?.0.query_pairs() {
            query.entry(name.into_owned()).or_default().push(Box::new(CelString::from(value.into_owned())));
        }
        let query: HashMap<CelMapKey<'static>, Box<dyn Val>> = query
            .into_iter()
            .map(|(name, values)| {
                let values: Box<dyn Val> = Box::new(CelList::from(values));
                (CelMapKey::from(name), values)
            })
            .collect();
        Ok(CowVal::owned(CelMap::from(query)))
    })
}

fn text<'b>(args: &'b [CowVal<'_, '_>], index: usize) -> Result<&'b str, cel::ExecutionError> {
    Ok(arg::<CelString>(args, index)?.inner())
}

fn string<'b, 'v>(value: String) -> Answer<'b, 'v> {
    Ok(CowVal::owned(CelString::from(value)))
}

fn boolean<'b, 'v>(value: bool) -> Answer<'b, 'v> {
    Ok(CowVal::owned(CelBool::from(value)))
}

fn integer<'b, 'v>(value: i64) -> Answer<'b, 'v> {
    Ok(CowVal::owned(CelInt::from(value)))
}
