//! The functions that expressions may call: their types, as cel-go and Kubernetes declare them.

use super::Type;

/// A declared type: of an argument, or of a result.
#[derive(Clone, Copy, PartialEq)]
enum T {
    /// Anything; as a result, dyn.
    Any,
    Bool,
    Int,
    Uint,
    Double,
    Text,
    Bytes,
    Duration,
    Timestamp,
    Kind,
    List,
    Map,
    Optional,
    Quantity,
    Ip,
    Cidr,
    Url,
    Format,
    Semver,
    Authorizer,
    /// A list of strings.
    Texts,
    /// As a result: the type of the first argument.
    First,
    /// The type of the items of the first argument.
    Item,
    /// An optional of the first argument.
    Maybe,
    /// The type within an optional, or within the second argument of `optMap`.
    Inner,
    /// As an argument: the type of the first one.
    Same,
}

use T::{
    Any, Authorizer, Bool, Bytes, Cidr, Double, Duration, First, Format, Inner, Int, Ip, Item, Kind, List, Map, Maybe,
    Optional, Quantity, Same, Semver, Text, Texts, Timestamp, Uint, Url,
};

/// Name, called on a target, arguments (the target first), result.
type Overload = (&'static str, bool, &'static [T], T);

#[rustfmt::skip]
const OVERLOADS: &[Overload] = &[
    ("!_", false, &[Bool], Bool),
    ("-_", false, &[Int], Int), ("-_", false, &[Double], Double),
    ("_&&_", false, &[Bool, Bool], Bool), ("_||_", false, &[Bool, Bool], Bool),
    ("@not_strictly_false", false, &[Bool], Bool),
    ("_==_", false, &[Any, Same], Bool), ("_!=_", false, &[Any, Same], Bool),
    ("_+_", false, &[Int, Int], Int), ("_+_", false, &[Uint, Uint], Uint), ("_+_", false, &[Double, Double], Double),
    ("_+_", false, &[Text, Text], Text), ("_+_", false, &[Bytes, Bytes], Bytes), ("_+_", false, &[List, Same], First),
    ("_+_", false, &[Duration, Duration], Duration), ("_+_", false, &[Timestamp, Duration], Timestamp),
    ("_+_", false, &[Duration, Timestamp], Timestamp),
    ("_-_", false, &[Int, Int], Int), ("_-_", false, &[Uint, Uint], Uint), ("_-_", false, &[Double, Double], Double),
    ("_-_", false, &[Duration, Duration], Duration), ("_-_", false, &[Timestamp, Duration], Timestamp),
    ("_-_", false, &[Timestamp, Timestamp], Duration),
    ("_*_", false, &[Int, Int], Int), ("_*_", false, &[Uint, Uint], Uint), ("_*_", false, &[Double, Double], Double),
    ("_/_", false, &[Int, Int], Int), ("_/_", false, &[Uint, Uint], Uint), ("_/_", false, &[Double, Double], Double),
    ("_%_", false, &[Int, Int], Int), ("_%_", false, &[Uint, Uint], Uint),
    ("@in", false, &[Any, List], Bool), ("@in", false, &[Any, Map], Bool),
    ("size", false, &[Text], Int), ("size", false, &[Bytes], Int), ("size", false, &[List], Int), ("size", false, &[Map], Int),
    ("size", true, &[Text], Int), ("size", true, &[Bytes], Int), ("size", true, &[List], Int), ("size", true, &[Map], Int),
    ("bool", false, &[Bool], Bool), ("bool", false, &[Text], Bool),
    ("bytes", false, &[Text], Bytes), ("bytes", false, &[Bytes], Bytes),
    ("double", false, &[Double], Double), ("double", false, &[Int], Double), ("double", false, &[Uint], Double), ("double", false, &[Text], Double),
    ("int", false, &[Int], Int), ("int", false, &[Uint], Int), ("int", false, &[Double], Int), ("int", false, &[Text], Int), ("int", false, &[Timestamp], Int), ("int", false, &[Duration], Int),
    ("uint", false, &[Uint], Uint), ("uint", false, &[Int], Uint), ("uint", false, &[Double], Uint), ("uint", false, &[Text], Uint),
    ("string", false, &[Text], Text), ("string", false, &[Int], Text), ("string", false, &[Uint], Text), ("string", false, &[Double], Text), ("string", false, &[Bool], Text), ("string", false, &[Bytes], Text), ("string", false, &[Timestamp], Text), ("string", false, &[Duration], Text), ("string", false, &[Ip], Text), ("string", false, &[Cidr], Text),
    ("duration", false, &[Text], Duration), ("duration", false, &[Duration], Duration), ("duration", false, &[Int], Duration),
    ("timestamp", false, &[Text], Timestamp), ("timestamp", false, &[Timestamp], Timestamp), ("timestamp", false, &[Int], Timestamp),
    ("dyn", false, &[Any], Any), ("type", false, &[Any], Kind),
    ("contains", true, &[Text, Text], Bool), ("startsWith", true, &[Text, Text], Bool), ("endsWith", true, &[Text, Text], Bool),
    ("matches", true, &[Text, Text], Bool), ("matches", false, &[Text, Text], Bool),
    ("getFullYear", true, &[Timestamp], Int), ("getFullYear", true, &[Timestamp, Text], Int),
    ("getMonth", true, &[Timestamp], Int), ("getMonth", true, &[Timestamp, Text], Int),
    ("getDate", true, &[Timestamp], Int), ("getDate", true, &[Timestamp, Text], Int),
    ("getDayOfMonth", true, &[Timestamp], Int), ("getDayOfMonth", true, &[Timestamp, Text], Int),
    ("getDayOfWeek", true, &[Timestamp], Int), ("getDayOfWeek", true, &[Timestamp, Text], Int),
    ("getDayOfYear", true, &[Timestamp], Int), ("getDayOfYear", true, &[Timestamp, Text], Int),
    ("getHours", true, &[Timestamp], Int), ("getHours", true, &[Timestamp, Text], Int), ("getHours", true, &[Duration], Int),
    ("getMinutes", true, &[Timestamp], Int), ("getMinutes", true, &[Timestamp, Text], Int), ("getMinutes", true, &[Duration], Int),
    ("getSeconds", true, &[Timestamp], Int), ("getSeconds", true, &[Timestamp, Text], Int), ("getSeconds", true, &[Duration], Int),
    ("getMilliseconds", true, &[Timestamp], Int), ("getMilliseconds", true, &[Timestamp, Text], Int), ("getMilliseconds", true, &[Duration], Int),
    // Strings.
    ("charAt", true, &[Text, Int], Text), ("indexOf", true, &[Text, Text], Int), ("indexOf", true, &[Text, Text, Int], Int),
    ("lastIndexOf", true, &[Text, Text], Int), ("lastIndexOf", true, &[Text, Text, Int], Int),
    ("lowerAscii", true, &[Text], Text), ("upperAscii", true, &[Text], Text), ("trim", true, &[Text], Text),
    ("replace", true, &[Text, Text, Text], Text), ("replace", true, &[Text, Text, Text, Int], Text),
    ("split", true, &[Text, Text], Texts), ("split", true, &[Text, Text, Int], Texts),
    ("substring", true, &[Text, Int], Text), ("substring", true, &[Text, Int, Int], Text),
    ("join", true, &[List], Text), ("join", true, &[List, Text], Text),
    ("format", true, &[Text, List], Text), ("reverse", true, &[Text], Text), ("strings.quote", false, &[Text], Text),
    ("find", true, &[Text, Text], Text), ("findAll", true, &[Text, Text], Texts), ("findAll", true, &[Text, Text, Int], Texts),
    // Lists.
    ("isSorted", true, &[List], Bool), ("sum", true, &[List], Item), ("min", true, &[List], Item), ("max", true, &[List], Item),
    ("indexOf", true, &[List, Any], Int), ("lastIndexOf", true, &[List, Any], Int),
    ("slice", true, &[List, Int, Int], First), ("distinct", true, &[List], First), ("reverse", true, &[List], First),
    ("sort", true, &[List], First), ("flatten", true, &[List], List), ("flatten", true, &[List, Int], List),
    ("@sortByAssociatedKeys", true, &[List, List], First), ("lists.range", false, &[Int], List),
    // Optionals.
    ("optional.of", false, &[Any], Maybe), ("optional.ofNonZeroValue", false, &[Any], Maybe), ("optional.none", false, &[], Optional),
    ("hasValue", true, &[Optional], Bool), ("value", true, &[Optional], Inner), ("orValue", true, &[Optional, Any], Inner), ("or", true, &[Optional, Optional], First),
    // Quantities.
    ("quantity", false, &[Text], Quantity), ("isQuantity", false, &[Text], Bool),
    ("isGreaterThan", true, &[Quantity, Quantity], Bool), ("isLessThan", true, &[Quantity, Quantity], Bool),
    ("compareTo", true, &[Quantity, Quantity], Int), ("sign", true, &[Quantity], Int), ("isInteger", true, &[Quantity], Bool),
    ("asInteger", true, &[Quantity], Int), ("asApproximateFloat", true, &[Quantity], Double),
    ("add", true, &[Quantity, Quantity], Quantity), ("add", true, &[Quantity, Int], Quantity),
    ("sub", true, &[Quantity, Quantity], Quantity), ("sub", true, &[Quantity, Int], Quantity),
    // Addresses and URLs.
    ("ip", false, &[Text], Ip), ("isIP", false, &[Text], Bool), ("ip.isCanonical", false, &[Text], Bool), ("family", true, &[Ip], Int),
    ("isUnspecified", true, &[Ip], Bool), ("isLoopback", true, &[Ip], Bool), ("isLinkLocalMulticast", true, &[Ip], Bool),
    ("isLinkLocalUnicast", true, &[Ip], Bool), ("isGlobalUnicast", true, &[Ip], Bool),
    ("cidr", false, &[Text], Cidr), ("isCIDR", false, &[Text], Bool), ("ip", true, &[Cidr], Ip), ("masked", true, &[Cidr], Cidr),
    ("prefixLength", true, &[Cidr], Int), ("containsIP", true, &[Cidr, Text], Bool), ("containsIP", true, &[Cidr, Ip], Bool),
    ("containsCIDR", true, &[Cidr, Text], Bool), ("containsCIDR", true, &[Cidr, Cidr], Bool),
    ("url", false, &[Text], Url), ("isURL", false, &[Text], Bool), ("getScheme", true, &[Url], Text), ("getHost", true, &[Url], Text),
    ("getHostname", true, &[Url], Text), ("getPort", true, &[Url], Text), ("getEscapedPath", true, &[Url], Text), ("getQuery", true, &[Url], Map),
    ("sets.contains", false, &[List, List], Bool), ("sets.intersects", false, &[List, List], Bool), ("sets.equivalent", false, &[List, List], Bool),
    // Versions.
    ("semver", false, &[Text], Semver), ("semver", false, &[Text, Bool], Semver), ("isSemver", false, &[Text], Bool), ("isSemver", false, &[Text, Bool], Bool),
    ("isGreaterThan", true, &[Semver, Semver], Bool), ("isLessThan", true, &[Semver, Semver], Bool), ("compareTo", true, &[Semver, Semver], Int),
    ("major", true, &[Semver], Int), ("minor", true, &[Semver], Int), ("patch", true, &[Semver], Int),
    // What a user may do.
    ("path", true, &[Authorizer, Text], Authorizer), ("group", true, &[Authorizer, Text], Authorizer), ("resource", true, &[Authorizer, Text], Authorizer),
    ("subresource", true, &[Authorizer, Text], Authorizer), ("namespace", true, &[Authorizer, Text], Authorizer), ("name", true, &[Authorizer, Text], Authorizer),
    ("serviceAccount", true, &[Authorizer, Text, Text], Authorizer), ("fieldSelector", true, &[Authorizer, Text], Authorizer),
    ("labelSelector", true, &[Authorizer, Text], Authorizer), ("check", true, &[Authorizer, Text], Authorizer),
    ("allowed", true, &[Authorizer], Bool), ("reason", true, &[Authorizer], Text), ("errored", true, &[Authorizer], Bool), ("error", true, &[Authorizer], Text),
    // Keys of JSON patches.
    ("jsonpatch.escapeKey", false, &[Text], Text),
    // Named formats.
    ("format.named", false, &[Text], Optional), ("format.dns1123Label", false, &[], Format), ("format.dns1123Subdomain", false, &[], Format),
    ("format.dns1035Label", false, &[], Format), ("format.qualifiedName", false, &[], Format), ("format.dns1123LabelPrefix", false, &[], Format),
    ("format.dns1123SubdomainPrefix", false, &[], Format), ("format.dns1035LabelPrefix", false, &[], Format), ("format.labelValue", false, &[], Format),
    ("format.uri", false, &[], Format), ("format.uuid", false, &[], Format), ("format.byte", false, &[], Format),
    ("format.date", false, &[], Format), ("format.datetime", false, &[], Format), ("validate", true, &[Format, Text], Optional),
];

/// Types that can be compared by order.
const ORDERED: [T; 8] = [Bool, Int, Uint, Double, Text, Bytes, Duration, Timestamp];

/// Is this the name of a type?
pub(super) fn is_type(name: &str) -> bool {
    const TYPES: [&str; 12] = [
        "bool",
        "bytes",
        "double",
        "duration",
        "int",
        "list",
        "map",
        "null_type",
        "string",
        "timestamp",
        "type",
        "uint",
    ];
    TYPES.contains(&name)
}

/// Is there a function of this name?
pub(super) fn is_declared(name: &str) -> bool {
    is_order(name) || OVERLOADS.iter().any(|(declared, ..)| *declared == name)
}

fn is_order(name: &str) -> bool {
    matches!(name, "_<_" | "_<=_" | "_>_" | "_>=_")
}

/// The type of a call's result; `None` when no overload takes the arguments.
pub(super) fn result(name: &str, member: bool, args: &[&Type]) -> Option<Type> {
    if is_order(name) {
        let ordered = ORDERED.iter().any(|type_| args.iter().all(|arg| takes(*type_, arg, args)));
        // Numbers compare across types.
        let number = |arg: &&Type| matches!(arg, Type::Int | Type::Uint | Type::Double | Type::Dyn);
        return (args.len() == 2 && (ordered || args.iter().all(number))).then_some(Type::Bool);
    }
    let mut fitting = OVERLOADS.iter().filter(|(declared, on_target, wanted, _)| {
        *declared == name
            && *on_target == member
            && wanted.len() == args.len()
            && wanted.iter().zip(args).all(|(wanted, arg)| takes(*wanted, arg, args))
    });
    let (.., first) = fitting.next()?;
    let type_ = of(*first, args);
    // With arguments of any type several overloads may fit; their results may differ.
    if fitting.all(|(.., other)| of(*other, args) == type_) { Some(type_) } else { Some(Type::Dyn) }
}

fn takes(wanted: T, arg: &Type, args: &[&Type]) -> bool {
    if *arg == Type::Dyn {
        return true;
    }
    match wanted {
        Any => true,
        Same => args.first().is_some_and(|first| arg.fits(first)),
        List | Texts => matches!(arg, Type::List(_)),
        Map => matches!(arg, Type::Map(..)),
        Optional => matches!(arg, Type::Optional(_)),
        other => *arg == of(other, args),
    }
}

fn of(declared: T, args: &[&Type]) -> Type {
    let first = || args.first().map_or(Type::Dyn, |first| Type::clone(first));
    match declared {
        Any | Same => Type::Dyn,
        Bool => Type::Bool,
        Int => Type::Int,
        Uint => Type::Uint,
        Double => Type::Double,
        Text => Type::Text,
        Bytes => Type::Bytes,
        Duration => Type::Duration,
        Timestamp => Type::Timestamp,
        Kind => Type::Kind,
        List => Type::List(Box::new(Type::Dyn)),
        Texts => Type::List(Box::new(Type::Text)),
        Map => Type::Map(Box::new(Type::Text), Box::new(Type::Dyn)),
        Optional => Type::Optional(Box::new(Type::Dyn)),
        Quantity => Type::Opaque("kubernetes.Quantity"),
        Ip => Type::Opaque("net.IP"),
        Cidr => Type::Opaque("net.CIDR"),
        Url => Type::Opaque("kubernetes.URL"),
        Format => Type::Opaque("kubernetes.NamedFormat"),
        Semver => Type::Opaque("kubernetes.Semver"),
        Authorizer => Type::Opaque("kubernetes.authorization.Authorizer"),
        First => first(),
        Item => match first() {
            Type::List(item) => *item,
            _ => Type::Dyn,
        },
        Maybe => Type::Optional(Box::new(first())),
        Inner => match first() {
            Type::Optional(value) => *value,
            _ => Type::Dyn,
        },
    }
}
