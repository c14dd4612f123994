// Inputs of the target `encoding`.
#pragma once

#include "nimble/encoding/core/encoding.h"

namespace nimble::fuzz {

// What the first byte of an input says. Append only: inputs are in the
// repository.
inline constexpr ValueType kEncodingTypes[] = {
    {ValueKind::kBool, 0, false},    {ValueKind::kInt, 1, true},
    {ValueKind::kInt, 1, false},     {ValueKind::kInt, 2, true},
    {ValueKind::kInt, 2, false},     {ValueKind::kInt, 4, true},
    {ValueKind::kInt, 4, false},     {ValueKind::kInt, 8, true},
    {ValueKind::kInt, 8, false},     {ValueKind::kFloat, 4, true},
    {ValueKind::kFloat, 8, true},    {ValueKind::kFixed, 1, false},
    {ValueKind::kFixed, 5, false},   {ValueKind::kFixed, 16, false},
    {ValueKind::kFixed, 16, true},   {ValueKind::kFixed, 32, true},
    {ValueKind::kFixed, 300, false}, {ValueKind::kBytes, 0, false},
};

}  // namespace nimble::fuzz
