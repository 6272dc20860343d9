// SPDX-License-Identifier: Apache-2.0
// CUPTI as a table of functions, from the libcupti that the program has loaded or the first that is found.
// Not here: what it is used for (callbacks.cpp, trace.cpp).
#pragma once
#include <cupti.h>

#include <string>

namespace klab::shim {

struct Cupti {
#define KLAB_CUPTI_CALLS(X)                                                                                      \
  X(Subscribe, cuptiSubscribe)                                                                                   \
  X(Unsubscribe, cuptiUnsubscribe)                                                                               \
  X(EnableCallback, cuptiEnableCallback)                                                                         \
  X(ActivityEnable, cuptiActivityEnable)                                                                         \
  X(ActivityRegisterCallbacks, cuptiActivityRegisterCallbacks)                                                   \
  X(ActivityFlushAll, cuptiActivityFlushAll)                                                                     \
  X(ActivityGetNextRecord, cuptiActivityGetNextRecord)                                                           \
  X(ActivityGetNumDroppedRecords, cuptiActivityGetNumDroppedRecords)                                             \
  X(GetTimestamp, cuptiGetTimestamp)                                                                             \
  X(GetResultString, cuptiGetResultString)
#define KLAB_MEMBER(member, declared) decltype(&declared) member = nullptr;
  KLAB_CUPTI_CALLS(KLAB_MEMBER)
#undef KLAB_MEMBER
};

Cupti& cupti();
/// Tries one library after the other until `use` is content with one (it answers empty). Empty: done; else what was
/// tried and why it did not do.
std::string load_cupti(std::string (*use)());
/// "cuptiSubscribe: CUPTI_ERROR_... (39)".
std::string failed(const char* call, CUptiResult result);

}  // namespace klab::shim
