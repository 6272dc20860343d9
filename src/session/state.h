// SPDX-License-Identifier: Apache-2.0
// The states of a session and which moves each allows: one table, no store.
#pragma once
#include <cstdint>
#include <string_view>

#include "base/error.h"
#include "base/json.h"

namespace klab::session {

/// opened -> source_selected -> captured -> running <-> idle -> saved -> closed; a kernel without source goes
/// from opened to captured.
enum class State { opened, source_selected, captured, running, idle, saved, closed };
KLAB_JSON_ENUM(State, opened, source_selected, captured, running, idle, saved, closed)

/// trace, search and build are work that leaves the state as it was; compare is as run.
enum class Move { select_source, capture, run, finish, save, close, trace, search, build, compare };
KLAB_JSON_ENUM(Move, select_source, capture, run, finish, save, close, trace, search, build, compare)

/// The state after `move`. Errors: illegal_state, naming the state, the move, and what can be done instead.
Result<State> next(State state, Move move);

}  // namespace klab::session
