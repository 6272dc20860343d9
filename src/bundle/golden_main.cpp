// SPDX-License-Identifier: Apache-2.0
// Writes the sample bundle that tests keep reading: klab_make_golden PATH. Run once for each format version.
#include <cstdio>

#include "bundle/test_bundle.h"

int main(int argc, char** argv) {
  if (argc != 2) return std::fputs("usage: klab_make_golden PATH\n", stderr), 2;
  const auto sealed = klab::bundle::testing::write_sample(argv[1]);
  if (!sealed) return std::fprintf(stderr, "%s\n", sealed.error().what.c_str()), 1;
  return 0;
}
