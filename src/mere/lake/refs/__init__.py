"""Operations on refs: branch, publish, revert, guard, lease."""
