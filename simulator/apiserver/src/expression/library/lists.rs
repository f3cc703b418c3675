//! `[1, 2].isSorted()`, `[1, 2].sum()`, `["a"].indexOf("a")`, `sets.contains([1, 2], [1])`.
//!
//! Source: `k8s.io/apiserver/pkg/cel/library/lists.go`, `cel-go/ext/sets.go`.

use std::cmp::Ordering;

use cel::common::types::{CelBool, CelInt, DYN_TYPE, LIST_TYPE};
use cel::common::value::{CowVal, Val};
use cel::{DeclarationError, Env, ExecutionError};

use super::{Answer, failed};

pub(super) fn register(env: &mut Env) -> Result<(), DeclarationError> {
    env.add_member_overload("isSorted", "list_is_sorted", LIST_TYPE, vec![], |args| is_sorted(&args))?;
    env.add_member_overload("sum", "list_sum", LIST_TYPE, vec![], |args| sum(&args))?;
    env.add_member_overload("min", "list_min", LIST_TYPE, vec![], |args| extreme(&args, "min", Ordering::Less))?;
    env.add_member_overload("max", "list_max", LIST_TYPE, vec![], |args| extreme(&args, "max", Ordering::Greater))?;
    env.add_member_overload("indexOf", "list_index_of", LIST_TYPE, vec![DYN_TYPE], |args| {
        position(&args, |found| found.next())
    })?;
    env.add_member_overload("lastIndexOf", "list_last_index_of", LIST_TYPE, vec![DYN_TYPE], |args| {
        position(&args, |found| found.last())
    })?;
    env.add_overload("sets.contains", "list_sets_contains_list", vec![LIST_TYPE, LIST_TYPE], |args| {
        let (left, right) = (items(&args)?, items(&args[1..])?);
        boolean(right.iter().all(|item| has(&left, &**item)))
    })?;
    env.add_overload("sets.intersects", "list_sets_intersects_list", vec![LIST_TYPE, LIST_TYPE], |args| {
        let (left, right) = (items(&args)?, items(&args[1..])?);
        boolean(right.iter().any(|item| has(&left, &**item)))
    })?;
    env.add_overload("sets.equivalent", "list_sets_equivalent_list", vec![LIST_TYPE, LIST_TYPE], |args| {
        let (left, right) = (items(&args)?, items(&args[1..])?);
        boolean(right.iter().all(|item| has(&left, &**item)) && left.iter().all(|item| has(&right, &**item)))
    })
}

fn has(items: &[Box<dyn Val + '_>], wanted: &(dyn Val + '_)) -> bool {
    items.iter().any(|item| item.equals(wanted))
}

fn boolean<'b, 'v>(value: bool) -> Answer<'b, 'v> {
    Ok(CowVal::owned(CelBool::from(value)))
}

fn items<'v>(args: &[CowVal<'_, 'v>]) -> Result<Vec<Box<dyn Val + 'v>>, ExecutionError> {
    let list = args.first().ok_or_else(ExecutionError::missing_argument_or_target)?;
    let list = list.as_iterable().ok_or_else(|| ExecutionError::no_such_overload("list", Vec::new()))?;
    let mut iterator = list.iter();
    let mut items = Vec::new();
    while let Some(item) = iterator.next() {
        items.push(item.clone_as_boxed());
    }
    Ok(items)
}

fn compare(left: &dyn Val, right: &dyn Val) -> Result<Ordering, ExecutionError> {
    let left = left.as_comparer().ok_or_else(|| ExecutionError::no_such_overload("_<_", Vec::new()))?;
    left.compare(right)
}

fn is_sorted<'b, 'v>(args: &[CowVal<'b, 'v>]) -> Answer<'b, 'v> {
    let items = items(args)?;
    for pair in items.windows(2) {
        if compare(&*pair[0], &*pair[1])? == Ordering::Greater {
            return boolean(false);
        }
    }
    boolean(true)
}

fn sum<'b, 'v>(args: &[CowVal<'b, 'v>]) -> Answer<'b, 'v> {
    let mut items = items(args)?.into_iter();
    let Some(first) = items.next() else { return Ok(CowVal::owned(CelInt::from(0))) };
    let mut total: Box<dyn Val + 'v> = first;
    for item in items {
        let sum = total.as_adder().ok_or_else(|| ExecutionError::no_such_overload("_+_", Vec::new()))?.add(&*item)?;
        total = sum.as_ref().clone_as_boxed();
    }
    Ok(CowVal::Owned(total))
}

fn extreme<'b, 'v>(args: &[CowVal<'b, 'v>], name: &str, wanted: Ordering) -> Answer<'b, 'v> {
    let mut items = items(args)?.into_iter();
    let Some(mut best) = items.next() else { return Err(failed(format!("{name} called on empty list"))) };
    for item in items {
        if compare(&*item, &*best)? == wanted {
            best = item;
        }
    }
    Ok(CowVal::Owned(best))
}

fn position<'b, 'v>(
    args: &[CowVal<'b, 'v>],
    pick: impl Fn(&mut dyn Iterator<Item = usize>) -> Option<usize>,
) -> Answer<'b, 'v> {
    let items = items(args)?;
    let wanted = args.get(1).ok_or_else(ExecutionError::missing_argument_or_target)?;
    let mut found = items.iter().enumerate().filter(|(_, item)| item.equals(wanted.as_ref())).map(|(index, _)| index);
    let index = pick(&mut found).map_or(-1, |index| i64::try_from(index).unwrap_or(i64::MAX));
    Ok(CowVal::owned(CelInt::from(index)))
}
