// The native side of bench/patterns: measures cases, one row of JSON each. The driver (../patterns.ts) gives it the
// cases of its sweeps.
#include <cstdio>
#include <cstring>
#include <iostream>
#include <sstream>

#include "ends.h"
#include "job.h"

namespace {

constexpr const char* kUsage = R"(Usage: patterns NAME=VALUE…    one case; prints a row of JSON
       patterns -             a case on each line of standard input; prints a row, or {"error":"…"}, for each
       patterns --describe [DEVICE]
                              prints the device that would be used, and how much it takes inline

  transport=shm|verbs   request=write|send   response=write|send   design=private|dispatcher
  clients=N   workers=N                    of a dispatcher
  request_bytes=N   response_bytes=N       multiples of 8
  empty_pct=N                              of the mailboxes that the responder polls, those that belong to nobody
  inline_bytes=N                           messages up to this size go with their work request
  signal_every=N                           one of N work requests asks for a completion
  warmup_ms=N   measure_ms=N
  least_requests=N                         of each client, however long that takes
  processors=one|each|any                  all threads on one; one for each; as the kernel likes
  device=NAME   client_device=NAME         of RDMA; the first active one, and the responder's
)";

std::vector<std::string> words_of(const std::string& line) {
  std::istringstream stream{line};
  std::vector<std::string> words;
  for (std::string word; stream >> word;) words.push_back(word);
  return words;
}

std::string quoted(const std::string& text) {
  std::string result = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') result += '\\';
    result += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
  }
  return result + '"';
}

std::string describe(const std::string& name) {
  using namespace nbc::patterns;
  return apart([&] {
    const DeviceFacts facts = describe_device(name);
    return "{\"device\":" + quoted(facts.name) + ",\"most_inline\":" + std::to_string(facts.most_inline) + "}";
  });
}

void measure_lines() {
  for (std::string line; std::getline(std::cin, line);) {
    std::string row;
    try {
      row = nbc::patterns::measure(nbc::patterns::parse_case(words_of(line)));
    } catch (const nbc::FabricError& error) {
      row = "{\"error\":" + quoted(error.message) + "}";
    }
    std::cout << row << std::endl;  // the driver waits for it
  }
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string> arguments{argv + 1, argv + argc};
  if (arguments.empty() || arguments[0] == "--help" || arguments[0] == "-h") {
    std::fputs(kUsage, arguments.empty() ? stderr : stdout);
    return arguments.empty() ? 2 : 0;
  }
  try {
    if (arguments[0] == "-")
      measure_lines();
    else if (arguments[0] == "--describe")
      std::cout << describe(arguments.size() > 1 ? arguments[1] : "") << '\n';
    else
      std::cout << nbc::patterns::measure(nbc::patterns::parse_case(arguments)) << '\n';
  } catch (const nbc::FabricError& error) {
    std::cerr << "patterns: " << error.message << '\n';
    return 1;
  }
  return 0;
}
