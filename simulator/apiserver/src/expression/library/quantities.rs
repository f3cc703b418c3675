//! `quantity("1Gi").isGreaterThan(quantity("1G"))`.
//!
//! Source: `k8s.io/apiserver/pkg/cel/library/quantity.go`.

use std::any::Any;
use std::sync::OnceLock;

use cel::common::types::{CelBool, CelDouble, CelInt, CelString, INT_TYPE, STRING_TYPE, Type};
use cel::common::value::{CowVal, StaticVal, Val};
use cel::{DeclarationError, Env};

use super::{Answer, arg, failed, opaque};
use crate::quantity::Quantity;

/// A quantity as a CEL value.
#[derive(Clone, Copy, Debug)]
struct CelQuantity(Quantity);

fn type_() -> &'static Type {
    static TYPE: OnceLock<Type> = OnceLock::new();
    TYPE.get_or_init(declared)
}

fn declared() -> Type {
    opaque("kubernetes.Quantity")
}

impl Val for CelQuantity {
    fn get_type(&self) -> &Type {
        type_()
    }

    fn cel_type() -> &'static Type {
        type_()
    }

    fn equals(&self, other: &dyn Val) -> bool {
        other.downcast_ref::<Self>().is_some_and(|other| other.0 == self.0)
    }

    fn clone_as_boxed<'v>(&self) -> Box<dyn Val + 'v>
    where
        Self: 'v,
    {
        Box::new(*self)
    }

    fn as_any(&self) -> Option<&dyn Any> {
        Some(self)
    }
}

impl StaticVal for CelQuantity {}

pub(super) fn register(env: &mut Env) -> Result<(), DeclarationError> {
    let of = declared;
    env.add_type(of())?;
    env.add_overload("quantity", "string_to_quantity", vec![STRING_TYPE], |args| {
        let text = arg::<CelString>(&args, 0)?.inner().to_owned();
        let quantity = text.parse::<Quantity>().map_err(failed)?;
        Ok(CowVal::owned(CelQuantity(quantity)))
    })?;
    env.add_overload("isQuantity", "is_quantity_string", vec![STRING_TYPE], |args| {
        boolean(arg::<CelString>(&args, 0)?.inner().parse::<Quantity>().is_ok())
    })?;
    env.add_member_overload("isGreaterThan", "quantity_is_greater_than", of(), vec![of()], |args| {
        boolean(one(&args, 0)? > one(&args, 1)?)
    })?;
    env.add_member_overload("isLessThan", "quantity_is_less_than", of(), vec![of()], |args| {
        boolean(one(&args, 0)? < one(&args, 1)?)
    })?;
    env.add_member_overload("compareTo", "quantity_compare_to", of(), vec![of()], |args| {
        integer(one(&args, 0)?.cmp(&one(&args, 1)?) as i64)
    })?;
    env.add_member_overload("sign", "quantity_sign", of(), vec![], |args| {
        let quantity = one(&args, 0)?;
        integer(if quantity.is_zero() {
            0
        } else if quantity.is_negative() {
            -1
        } else {
            1
        })
    })?;
    env.add_member_overload("isInteger", "quantity_is_integer", of(), vec![], |args| {
        boolean(one(&args, 0)?.is_whole())
    })?;
    env.add_member_overload("asInteger", "quantity_as_integer", of(), vec![], |args| {
        let quantity = one(&args, 0)?;
        if quantity.is_whole() { integer(quantity.ceil()) } else { Err(failed("cannot convert value to integer")) }
    })?;
    env.add_member_overload("asApproximateFloat", "quantity_as_float", of(), vec![], |args| {
        Ok(CowVal::owned(CelDouble::from(one(&args, 0)?.approximate())))
    })?;
    env.add_member_overload("add", "quantity_add", of(), vec![of()], |args| {
        quantity(one(&args, 0)?.plus(one(&args, 1)?))
    })?;
    env.add_member_overload("add", "quantity_add_int", of(), vec![INT_TYPE], |args| {
        quantity(one(&args, 0)?.plus(Quantity::from(*arg::<CelInt>(&args, 1)?.inner())))
    })?;
    env.add_member_overload("sub", "quantity_sub", of(), vec![of()], |args| {
        quantity(one(&args, 0)?.minus(one(&args, 1)?))
    })?;
    env.add_member_overload("sub", "quantity_sub_int", of(), vec![INT_TYPE], |args| {
        quantity(one(&args, 0)?.minus(Quantity::from(*arg::<CelInt>(&args, 1)?.inner())))
    })?;
    Ok(())
}

fn one(args: &[CowVal<'_, '_>], index: usize) -> Result<Quantity, cel::ExecutionError> {
    Ok(arg::<CelQuantity>(args, index)?.0)
}

fn quantity<'b, 'v>(quantity: Quantity) -> Answer<'b, 'v> {
    Ok(CowVal::owned(CelQuantity(quantity)))
}

fn boolean<'b, 'v>(value: bool) -> Answer<'b, 'v> {
    Ok(CowVal::owned(CelBool::from(value)))
}

fn integer<'b, 'v>(value: i64) -> Answer<'b, 'v> {
    Ok(CowVal::owned(CelInt::from(value)))
}
