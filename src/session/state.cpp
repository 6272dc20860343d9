// SPDX-License-Identifier: Apache-2.0
#include "session/state.h"

#include <fmt/format.h>

#include <optional>
#include <string>

namespace klab::session {
namespace {

constexpr State kStates[] = {State::opened, State::source_selected, State::captured, State::running,
                             State::idle,   State::saved,           State::closed};
constexpr Move kMoves[] = {Move::trace, Move::search,  Move::select_source, Move::capture, Move::build,
                           Move::run,   Move::compare, Move::save,          Move::close,   Move::finish};

std::optional<State> after(State state, Move move) {
  const bool resting = state == State::captured || state == State::idle || state == State::saved;
  switch (move) {
    case Move::select_source:
      if (state == State::opened || state == State::source_selected) return State::source_selected;
      if (resting) return state;  // another file for the same capture
      break;
    case Move::capture:
      if (state == State::opened || state == State::source_selected || resting) return State::captured;
      break;
    case Move::run:
    case Move::compare:
      if (resting) return State::running;
      break;
    case Move::trace:
    case Move::search:
      if (state == State::opened || state == State::source_selected || resting) return state;
      break;
    case Move::build:
      if (resting) return state;
      break;
    case Move::finish:
      if (state == State::running) return State::idle;
      break;
    case Move::save:
      if (state == State::idle || state == State::saved) return State::saved;
      break;
    case Move::close:
      if (state != State::running && state != State::closed) return State::closed;
      break;
  }
  return std::nullopt;
}

const char* advice(State state, Move move) {
  if (state == State::closed) return "open another session";
  if (state == State::running) return "wait for the job that runs, or cancel it";
  if (move == Move::run || move == Move::compare || move == Move::build) return "capture the dispatch first";
  if (move == Move::save) return "compare a variant first: only one that is correct can be saved";
  return "";
}

}  // namespace

Result<State> next(State state, Move move) {
  if (const auto to = after(state, move)) return *to;
  std::string allowed;
  for (const Move m : kMoves)
    if (m != Move::finish && after(state, m))
      allowed += (allowed.empty() ? "" : ", ") + std::string(to_string(m));
  return fail(ErrorCode::illegal_state,
              fmt::format("a session that is {} cannot {}; it can: {}", to_string(state), to_string(move),
                          allowed.empty() ? "nothing" : allowed),
              advice(state, move));
}

static_assert(std::size(kStates) == 7);

}  // namespace klab::session
