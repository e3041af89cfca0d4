//! Expressions of the documentation, and what is wrong with those that are wrong.

use super::*;
use nilometer_model::row::{Position, RowBatch, RowLayout};
use nilometer_model::symbol::Symbols;
use nilometer_model::time::EventTime;
use nilometer_model::value::{Type, Value};
use std::sync::Arc;

fn fields() -> Vec<Field> {
    [
        ("bytes", Type::U64),
        ("packets", Type::U64),
        ("dst_port", Type::U16),
        ("tos", Type::U8),
        ("duration", Type::I64),
        ("total", Type::Big),
        ("rate", Type::F64),
        ("flag", Type::Bool),
        ("application", Type::Text),
        ("src_addr", Type::Ip),
        ("meta.site", Type::Text),
        ("node", Type::Object),
    ]
    .map(|(name, ty)| Field::new(name, ty))
    .into()
}

/// The value of `source` for one record.
fn eval(source: &str) -> Value {
    let values = [
        Value::Int(3000),
        Value::Int(2),
        Value::Int(443),
        Value::Int(0xb8),
        Value::Null,
        Value::Int(1 << 100),
        Value::Float(0.5),
        Value::Bool(true),
        Value::Text("https".into()),
        Value::Ip([10, 1, 2, 3].into()),
        Value::Text("kölle".into()),
        Value::Null,
    ];
    let symbols = Symbols::default();
    let layout = Arc::new(RowLayout::new(fields()));
    let mut batch = RowBatch::new(layout.clone());
    let mut row = batch.push(EventTime::MIN, Position::default());
    for (slot, value) in layout.slots().iter().zip(values) {
        row.set(*slot, value.intern(&symbols).unwrap());
    }
    let expr = compile(source, &fields()).unwrap_or_else(|errors| panic!("{source}: {errors:?}"));
    let expr = expr.bind(&layout, &symbols).unwrap();
    expr.eval(batch.row(0), &symbols).unwrap().value(&symbols)
}

#[test]
fn expressions_of_the_subset_have_values() {
    for (source, expected) in [
        ("dst_port in [80, 443]", Value::Bool(true)),
        ("bytes / packets", Value::Int(1500)),
        ("tos / 4", Value::Int(46)),
        ("total * 2 + 1", Value::Int((1 << 101) + 1)),
        ("double(bytes) * 8.0 * rate", Value::Float(12_000.0)),
        ("-tos % 7", Value::Int(-2)),
        ("0x10 + 18446744073709551615u", Value::Int((1 << 64) + 15)),
        ("flag ? 'a' : \"b\"", Value::Text("a".into())),
        ("duration == null || duration > 0", Value::Bool(true)),
        ("has(duration) && duration > 0", Value::Bool(false)),
        ("has(node)", Value::Bool(false)),
        ("application.startsWith('http') && !application.endsWith('p')", Value::Bool(true)),
        ("application.contains(meta.site)", Value::Bool(false)),
        ("size(meta.site) == meta.site.size() && size(meta.site) == 5", Value::Bool(true)),
        ("cidr('10.0.0.0/8').containsIP(src_addr)", Value::Bool(true)),
        ("cidr(\"2001:db8::/32\").containsIP(src_addr)", Value::Bool(false)),
        ("src_addr == ip('10.1.2.3')", Value::Bool(true)),
        ("src_addr in [ip('10.1.2.4'), ip('::1')]", Value::Bool(false)),
        ("src_addr.family()", Value::Int(4)),
        ("src_addr.isGlobalUnicast()", Value::Bool(true)),
        ("src_addr.isLoopback() || src_addr.isUnspecified()", Value::Bool(false)),
        ("src_addr.isLinkLocalUnicast()", Value::Bool(false)),
        ("int(rate * 9.0)", Value::Int(4)),
        ("// which side\n tos < 2", Value::Bool(false)),
        ("meta.site == r'kölle'", Value::Bool(true)),
    ] {
        assert_eq!(eval(source), expected, "{source}");
    }
}

/// What is said of a name that is near no other.
const FIELDS: &str = "known are `bytes`, `packets`, `dst_port`, `tos`, `duration`, `total`, `rate`, \
                      `flag`, `application`, `src_addr`, `meta.site`, `node`";
const FUNCTIONS: &str = "known are `has`, `size`, `contains`, `startsWith`, `endsWith`, `int`, \
                         `double`, `ip`, `cidr`, `containsIP`, `family`, `isLoopback`, \
                         `isUnspecified`, `isLinkLocalUnicast`, `isGlobalUnicast`";

/// Source, offset, the text pointed at, message, help.
const WRONG: &[(&str, usize, &str, &str, &str)] = &[
    ("bytse > 1", 0, "bytse", "there is no field `bytse`", "did you mean `bytes`?"),
    ("flag && zzz", 8, "zzz", "there is no field `zzz`", FIELDS),
    (
        "flag && meta.sit == 'x'",
        12,
        ".",
        "there is no field `meta.sit`",
        "did you mean `meta.site`?",
    ),
    ("bytes / 0 == 1", 6, "/", "this fails for every record (division_by_zero)", ""),
    ("bytes % (2 - 2)", 6, "%", "this fails for every record (division_by_zero)", ""),
    (
        "bytes + rate",
        6,
        "+",
        "`+` cannot take int and double",
        "convert the whole number: `double(field)`",
    ),
    (
        "rate % rate",
        5,
        "%",
        "`%` cannot take double and double",
        "only whole numbers have a remainder",
    ),
    (
        "application + 'x'",
        12,
        "+",
        "`+` cannot take text and text",
        "texts can be compared and searched, not joined",
    ),
    (
        "src_addr == '10.0.0.1'",
        9,
        "==",
        "`==` cannot take ip and text",
        "write an address as ip(\"192.0.2.1\")",
    ),
    (
        "src_addr < src_addr",
        9,
        "<",
        "`<` cannot take ip and ip",
        "addresses have no order: use cidr(\"10.0.0.0/8\").containsIP(address)",
    ),
    (
        "bytes < null",
        6,
        "<",
        "`<` cannot take int and null",
        "null can only be compared by `==` and `!=`",
    ),
    ("bytes && flag", 6, "&&", "`&&` takes bool, not int", ""),
    ("!bytes", 0, "!", "`!` takes bool, not int", ""),
    ("bytes ? 1 : 2", 6, "?", "`? :` takes bool, not int", ""),
    ("flag ? 1 : 'a'", 5, "?", "`? :` gives int or text: both must be of one type", ""),
    ("size(bytes)", 0, "size", "`size` takes text, not int", ""),
    ("dst_port in [80, 'http']", 9, "in", "`in` looks for int in a list with text", ""),
    (
        "dst_port in [80, bytes]",
        9,
        "in",
        "the list of `in` must hold literals",
        "compare with each value: `a == b || a == c`",
    ),
    ("dst_port in bytes", 9, "in", "`in` takes a list, like [80, 443]", ""),
    (
        "src_addr in ['::1']",
        9,
        "in",
        "`in` looks for ip in a list with text",
        "write addresses as ip(\"192.0.2.1\")",
    ),
    ("null", 0, "null", "the expression is always null", ""),
    // Outside the subset.
    ("[1, 2]", 0, "[", "lists as values are not supported", "write a list on the right of `in`"),
    ("{'a': 1}", 0, "{", "maps are not supported", ""),
    ("Flow{a: 1}", 4, "{", "messages are not supported", ""),
    ("b'a' == 'a'", 0, "b'a'", "bytes are not supported", "write a text without the `b`"),
    ("application[0]", 11, "[", "indices are not supported", ""),
    ("[1, 2].exists(x, x > 1)", 7, "exists", "the function `exists` is not supported", FUNCTIONS),
    (
        "application.matches('a.*')",
        12,
        "matches",
        "the function `matches` is not supported",
        FUNCTIONS,
    ),
    (
        "timestamp('2024-01-01T00:00:00Z')",
        0,
        "timestamp",
        "the function `timestamp` is not supported",
        FUNCTIONS,
    ),
    (
        "application.startWith('a')",
        12,
        "startWith",
        "the function `startWith` is not supported",
        "did you mean `startsWith`?",
    ),
    (
        "startsWith(application, 'a')",
        0,
        "startsWith",
        "`startsWith` is called like this: text.startsWith(part)",
        "",
    ),
    (
        "cidr('10.0.0.0/8')",
        0,
        "cidr",
        "`cidr` is called like this: cidr(\"10.0.0.0/8\").containsIP(address)",
        "",
    ),
    (
        "cidr('10.0.0.0/33').containsIP(src_addr)",
        0,
        "cidr",
        "`10.0.0.0/33` is not an address block: write it like \"10.0.0.0/8\" or \"2001:db8::/32\"",
        "",
    ),
    (
        "src_addr == ip('10.0.0')",
        12,
        "ip",
        "`ip` takes an address in quotes, like ip(\"192.0.2.1\")",
        "",
    ),
    ("size (bytes)", 5, "(", "`size` takes text, not int", ""),
    (
        "has(1)",
        4,
        "1",
        "parts of values are not supported",
        "fields are flat: write the field's name",
    ),
    ("(flag).x", 6, ".", "there is no field `flag.x`", "did you mean `flag`?"),
    // Not CEL.
    ("", 0, "", "the expression is empty", ""),
    (" \n", 2, "", "the expression is empty", ""),
    ("bytes >", 7, "", "the expression ends too early", ""),
    ("(bytes > 1", 10, "", "the expression ends too early", ""),
    ("bytes = 1", 6, "=", "`=` cannot stand here", "write `==` to compare"),
    ("flag\n  and flag", 7, "and", "`and` cannot stand here", "write `&&`"),
    ("'é' == $", 8, "$", "`$` cannot stand here", ""),
    ("application == 'http", 15, "'", "the text in quotes does not end", ""),
    ("bytes > 9223372036854775808", 8, "9223372036854775808", "invalid int literal", ""),
    ("x.?y", 1, ".", "unsupported syntax '.?'", ""),
];

#[test]
fn wrong_expressions_are_refused_with_place_and_reason() {
    for (source, offset, pointed, message, help) in WRONG.iter().copied() {
        let errors = compile(source, &fields()).expect_err(source);
        let [error] = &*errors else { panic!("{source}: {errors:?}") };
        assert_eq!(error.message, message, "{source}");
        assert_eq!(error.help.as_deref().unwrap_or_default(), help, "{source}");
        assert_eq!(error.offset, offset, "{source}");
        assert_eq!(&source[offset..offset + error.length], pointed, "{source}");
    }
}

#[test]
fn all_errors_are_told_in_order() {
    let errors = compile("bites + rate > 1 || size(tos) == 1", &fields()).unwrap_err();
    let told: Vec<_> = errors.iter().map(ToString::to_string).collect();
    let expected =
        ["there is no field `bites`; did you mean `bytes`?", "`size` takes text, not int"];
    assert_eq!(told, expected);
}

#[test]
fn filters_must_be_conditions() {
    assert!(compile_filter("bytes > 0", &fields()).is_ok());
    for source in ["bytes", "null", "flag ? 1 : 2"] {
        let errors = compile_filter(source, &fields()).unwrap_err();
        assert!(errors[0].message.starts_with("a filter must be bool"), "{errors:?}");
        assert_eq!((errors[0].offset, errors[0].length), (0, source.len()));
    }
}

#[test]
fn size_and_depth_are_bounded_and_neither_overflows_the_stack() {
    let nested = |levels: usize| format!("{}flag{}", "(".repeat(levels), ")".repeat(levels));
    assert!(compile(&nested(NESTING_MAX.into()), &fields()).is_ok());
    let room = SOURCE_BYTES_MAX - 10;
    for (source, expected) in [
        (nested(usize::from(NESTING_MAX) + 2), "nested too deeply: at most 48 levels"),
        ("(".repeat(room), "nested too deeply: at most 48 levels"),
        ("[".repeat(room), "nested too deeply: at most 48 levels"),
        ("flag ? flag : ".repeat(200) + "flag", "nested too deeply: at most 48 levels"),
        ("tos + ".repeat(200) + "tos", "nested too deeply: at most 128 levels"),
        ("tos+".repeat(room / 4) + "tos", "nested too deeply: at most 128 levels"),
        ("flag.a".to_owned() + &".a".repeat(room / 2 - 2), "there is no field `flag.a"),
        ("x".repeat(SOURCE_BYTES_MAX + 1), "an expression has at most 16384 bytes"),
    ] {
        let errors = compile(&source, &fields()).expect_err(expected);
        assert!(errors[0].message.starts_with(expected), "{:.200}", errors[0].message);
    }
    // Long, but not deep.
    let ports: Vec<_> = (1..2500).map(|port| port.to_string()).collect();
    assert!(compile(&format!("dst_port in [{}]", ports.join(", ")), &fields()).is_ok());
    assert!(compile(&("tos == 1 || ".repeat(500) + "flag"), &fields()).is_ok());
}
