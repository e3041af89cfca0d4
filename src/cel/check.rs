//! Checks a syntax tree against the fields of a record and builds the typed expression.
//!
//! A part that is wrong gives one error and no expression; the parts beside it are checked all the
//! same, so that all errors are found at once.

use super::CelError;
use super::functions::{self, FORMS};
use crate::config::help_on_names;
use cel::common::ast::operators as op;
use cel::common::ast::{CallExpr, Expr, IdedExpr, LiteralValue, SourceInfo};
use nilometer_model::expr::{
    Arithmetic, Binary, Cidr, Kind, Literal, Relation, TypeError, TypedExpr, Unary,
};
use nilometer_model::row::Field;
use std::net::IpAddr;

/// The typed expression of `tree`.
pub(super) fn check(
    tree: &IdedExpr,
    places: &SourceInfo,
    (noun, fields): (&'static str, &[Field]),
) -> Result<TypedExpr, Vec<CelError>> {
    let mut checker = Checker { places, noun, fields, errors: Vec::new() };
    match checker.expr(tree) {
        Some(expr) if checker.errors.is_empty() => Ok(expr),
        Some(_) | None => {
            checker.errors.sort_by_key(|error| error.offset);
            Err(checker.errors)
        }
    }
}

struct Checker<'a> {
    places: &'a SourceInfo,
    /// What a name stands for, in messages.
    noun: &'static str,
    fields: &'a [Field],
    errors: Vec<CelError>,
}

impl Checker<'_> {
    fn error(&mut self, at: &IdedExpr, message: String, help: Option<String>) {
        // The parser gives the first and the last byte of a token: of a call, its parenthesis.
        let (start, stop) = self.places.offset_for(at.id).unwrap_or_default();
        let (mut offset, mut end) = (start as usize, stop as usize + 1);
        let before = self.places.source.get(..offset).unwrap_or_default();
        let name = before.rsplit(|letter: char| !letter.is_alphanumeric()).next();
        let name = name.map_or(0, str::len);
        if name > 0 && self.places.source.get(offset..end) == Some("(") {
            end = offset;
            offset -= name;
        }
        self.errors.push(CelError { message, offset, length: end - offset, help });
    }

    /// Notes that `at` is a construct outside the subset.
    fn unsupported(&mut self, at: &IdedExpr, what: &str, help: Option<&str>) {
        self.error(at, format!("{what} are not supported"), help.map(Into::into));
    }

    /// Takes the expression, or notes the error of the operator `at`.
    fn typed(&mut self, at: &IdedExpr, typed: Result<TypedExpr, TypeError>) -> Option<TypedExpr> {
        match typed {
            Ok(expr) => Some(expr),
            Err(error) => {
                let help = advice(&error).map(Into::into);
                self.error(at, error.to_string(), help);
                None
            }
        }
    }

    fn expr(&mut self, expr: &IdedExpr) -> Option<TypedExpr> {
        match &expr.expr {
            Expr::Literal(literal) => self.literal(expr, literal),
            Expr::Ident(_) | Expr::Select(_) => {
                let field = self.field(expr)?;
                Some(TypedExpr::field(&field))
            }
            Expr::Call(call) => self.call(expr, call),
            Expr::List(_) => {
                let help = "write a list on the right of `in`";
                self.unsupported(expr, "lists as values", Some(help));
                None
            }
            Expr::Map(_) => {
                self.unsupported(expr, "maps", None);
                None
            }
            Expr::Struct(_) => {
                self.unsupported(expr, "messages", None);
                None
            }
            Expr::Comprehension(_) => {
                self.unsupported(expr, "macros over lists", None);
                None
            }
            Expr::Unspecified => {
                self.error(expr, "this is not an expression".into(), None);
                None
            }
        }
    }

    fn literal(&mut self, at: &IdedExpr, literal: &LiteralValue) -> Option<TypedExpr> {
        let literal = match literal {
            LiteralValue::Null => Literal::Null,
            LiteralValue::Boolean(truth) => Literal::Bool(*truth.inner()),
            LiteralValue::Int(number) => Literal::Int((*number.inner()).into()),
            LiteralValue::UInt(number) => Literal::Int((*number.inner()).into()),
            LiteralValue::Double(number) => Literal::Double(*number.inner()),
            LiteralValue::String(text) => Literal::Text(text.inner().into()),
            LiteralValue::Bytes(_) => {
                self.unsupported(at, "bytes", Some("write a text without the `b`"));
                return None;
            }
        };
        Some(TypedExpr::literal(literal))
    }

    /// The field that `at` names; the name of a field may have dots.
    fn field(&mut self, at: &IdedExpr) -> Option<Field> {
        let Some(name) = name(at) else {
            self.unsupported(
                at,
                "parts of values",
                Some("fields are flat: write the field's name"),
            );
            return None;
        };
        let found = self.fields.iter().find(|field| *field.name == *name);
        if found.is_none() {
            let known: Vec<_> = self.fields.iter().map(|field| &*field.name).collect();
            let help = Some(help_on_names(&name, &known));
            self.error(at, format!("there is no {} `{name}`", self.noun), help);
        }
        found.cloned()
    }

    fn call(&mut self, at: &IdedExpr, call: &CallExpr) -> Option<TypedExpr> {
        let name = call.func_name.as_str();
        match (name, call.target.as_deref(), call.args.as_slice()) {
            (op::CONDITIONAL, None, [condition, then, otherwise]) => {
                let parts = [self.expr(condition), self.expr(then), self.expr(otherwise)];
                let [Some(condition), Some(then), Some(otherwise)] = parts else { return None };
                self.typed(at, TypedExpr::conditional(condition, then, otherwise))
            }
            (op::IN, None, [value, list]) => self.is_in(at, value, list),
            (op::LOGICAL_NOT, None, [operand]) => self.unary(at, Unary::Not, operand),
            (op::NEGATE, None, [operand]) => self.unary(at, Unary::Negate, operand),
            (op::INDEX, None, _) => {
                self.unsupported(at, "indices", None);
                None
            }
            ("has", None, [field]) => {
                let field = self.field(field)?;
                Some(TypedExpr::has(&field))
            }
            ("ip", None, [text]) => {
                let address: Option<IpAddr> = written(text).and_then(|text| text.parse().ok());
                if address.is_none() {
                    let message = "`ip` takes an address in quotes, like ip(\"192.0.2.1\")";
                    self.error(at, message.into(), None);
                }
                Some(TypedExpr::literal(Literal::Ip(address?)))
            }
            ("containsIP", Some(block), [address]) => self.within(at, block, address),
            (_, None, [operand]) if functions::global(name).is_some() => {
                self.unary(at, functions::global(name)?, operand)
            }
            (_, Some(operand), []) if functions::method(name).is_some() => {
                self.unary(at, functions::method(name)?, operand)
            }
            (_, Some(left), [right]) if functions::search(name).is_some() => {
                self.binary(at, functions::search(name)?, [left, right])
            }
            (_, None, [left, right]) if operator(name).is_some() => {
                self.binary(at, operator(name)?, [left, right])
            }
            _ => {
                self.unknown_call(at, name);
                None
            }
        }
    }

    fn unary(&mut self, at: &IdedExpr, unary: Unary, operand: &IdedExpr) -> Option<TypedExpr> {
        let operand = self.expr(operand)?;
        self.typed(at, TypedExpr::unary(unary, operand))
    }

    fn binary(
        &mut self,
        at: &IdedExpr,
        binary: Binary,
        [left, right]: [&IdedExpr; 2],
    ) -> Option<TypedExpr> {
        let (left, right) = (self.expr(left), self.expr(right));
        self.typed(at, TypedExpr::binary(binary, left?, right?))
    }

    fn is_in(&mut self, at: &IdedExpr, value: &IdedExpr, list: &IdedExpr) -> Option<TypedExpr> {
        let value = self.expr(value);
        let Expr::List(list) = &list.expr else {
            let message = "`in` takes a list, like [80, 443]".into();
            self.error(at, message, None);
            return None;
        };
        let checked: Vec<_> = list.elements.iter().map(|element| self.expr(element)).collect();
        let elements = checked.into_iter().collect::<Option<Vec<_>>>()?;
        self.typed(at, TypedExpr::is_in(value?, elements))
    }

    /// `cidr("10.0.0.0/8").containsIP(address)`.
    fn within(&mut self, at: &IdedExpr, block: &IdedExpr, address: &IdedExpr) -> Option<TypedExpr> {
        let address = self.expr(address);
        let text = match &block.expr {
            Expr::Call(call) if call.func_name == "cidr" && call.target.is_none() => {
                match call.args.as_slice() {
                    [text] => written(text),
                    _ => None,
                }
            }
            _ => None,
        };
        let Some(text) = text else {
            self.unknown_call(at, "containsIP");
            return None;
        };
        match Cidr::parse(text) {
            Ok(cidr) => self.typed(at, TypedExpr::unary(Unary::Within(cidr), address?)),
            Err(error) => {
                self.error(block, error.to_string(), None);
                None
            }
        }
    }

    fn unknown_call(&mut self, at: &IdedExpr, name: &str) {
        if let Some((_, form)) = FORMS.iter().find(|(known, _)| *known == name) {
            self.error(at, format!("`{name}` is called like this: {form}"), None);
            return;
        }
        let known: Vec<_> = FORMS.iter().map(|(known, _)| *known).collect();
        let help = Some(help_on_names(name, &known));
        self.error(at, format!("the function `{name}` is not supported"), help);
    }
}

/// The name that an identifier or a chain of selections spells.
fn name(expr: &IdedExpr) -> Option<String> {
    match &expr.expr {
        Expr::Ident(name) => Some(name.clone()),
        Expr::Select(select) => Some(format!("{}.{}", name(&select.operand)?, select.field)),
        Expr::Unspecified
        | Expr::Call(_)
        | Expr::Comprehension(_)
        | Expr::List(_)
        | Expr::Literal(_)
        | Expr::Map(_)
        | Expr::Struct(_) => None,
    }
}

/// The text of a literal.
fn written(expr: &IdedExpr) -> Option<&str> {
    match &expr.expr {
        Expr::Literal(LiteralValue::String(text)) => Some(text.inner()),
        _ => None,
    }
}

fn operator(name: &str) -> Option<Binary> {
    Some(match name {
        op::LOGICAL_AND => Binary::And,
        op::LOGICAL_OR => Binary::Or,
        op::ADD => Binary::Arithmetic(Arithmetic::Add),
        op::SUBSTRACT => Binary::Arithmetic(Arithmetic::Subtract),
        op::MULTIPLY => Binary::Arithmetic(Arithmetic::Multiply),
        op::DIVIDE => Binary::Arithmetic(Arithmetic::Divide),
        op::MODULO => Binary::Arithmetic(Arithmetic::Remainder),
        op::EQUALS => Binary::Compare(Relation::Equal),
        op::NOT_EQUALS => Binary::Compare(Relation::NotEqual),
        op::LESS => Binary::Compare(Relation::Less),
        op::LESS_EQUALS => Binary::Compare(Relation::LessOrEqual),
        op::GREATER => Binary::Compare(Relation::Greater),
        op::GREATER_EQUALS => Binary::Compare(Relation::GreaterOrEqual),
        _ => return None,
    })
}

/// What to write instead.
fn advice(error: &TypeError) -> Option<&'static str> {
    match *error {
        TypeError::Operands { left, right, operator } => match (left, right) {
            (Kind::Int, Kind::Double) | (Kind::Double, Kind::Int) if operator != "%" => {
                Some("convert the whole number: `double(field)`")
            }
            (Kind::Double, Kind::Double) => Some("only whole numbers have a remainder"),
            (Kind::Ip, Kind::Text) | (Kind::Text, Kind::Ip) => {
                Some("write an address as ip(\"192.0.2.1\")")
            }
            (Kind::Ip, Kind::Ip) => {
                Some("addresses have no order: use cidr(\"10.0.0.0/8\").containsIP(address)")
            }
            (Kind::Text, Kind::Text) => Some("texts can be compared and searched, not joined"),
            (Kind::Null, _) | (_, Kind::Null) => Some("null can only be compared by `==` and `!=`"),
            _ => None,
        },
        TypeError::Element { value: Kind::Ip, .. } => Some("write addresses as ip(\"192.0.2.1\")"),
        TypeError::ComputedElement => Some("compare with each value: `a == b || a == c`"),
        TypeError::Fails(_)
        | TypeError::Element { .. }
        | TypeError::Operand { .. }
        | TypeError::Branches { .. }
        | TypeError::TooDeep { .. } => None,
    }
}
