// Fabrics without an engine, which the test's own thread drives.
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "fabric/fabric.h"
#include "test/check.h"
#include "test/limit.h"

namespace nbc::check {

inline double counter(const Fabric& fabric, const std::string& wanted) {
  double found = -1;
  fabric.visit_counters([&](Counter counter, double value) {
    if (wanted == name_of(counter)) found = value;
  });
  CHECK(found >= 0);
  return found;
}

// Drives a fabric once; what it completed goes to the end of `seen`.
inline void pass_once(Fabric& fabric, std::vector<Completion>& seen) {
  Completion completions[16];
  fabric.flush();
  const unsigned count = fabric.poll(completions, 16, Effort::pass);
  seen.insert(seen.end(), completions, completions + count);
}

inline const Completion* find_first(const std::vector<Completion>& seen, Completion::Kind kind) {
  for (const Completion& completion : seen) {
    if (completion.kind == kind) return &completion;
  }
  return nullptr;
}

inline void until(const std::function<bool()>& done, const std::function<void()>& pass) {
  Limit limit(20);
  while (!done()) {
    pass();
    CHECK(!limit.hit());
  }
}

// Those of a whole job; one that has gone is null.
template <typename Made>
struct Fabrics {
  explicit Fabrics(std::vector<std::unique_ptr<Made>> made) : fabric(std::move(made)), seen(fabric.size()) {}
  void connect() {
    until([&] {
      bool all = true;
      for (const auto& one : fabric) {
        for (Rank peer = 0; peer < one->size(); ++peer) all &= one->connect(peer) == Connect::ready;
      }
      return all;
    });
    // That a peer has answered is of no use any more.
    for (Rank rank = 0; rank < fabric.size(); ++rank) {
      pass(rank);
      std::erase_if(seen[rank], [](const Completion& each) { return each.kind == Completion::Kind::answered; });
    }
  }
  void pass(Rank rank) {
    if (fabric[rank] != nullptr) pass_once(*fabric[rank], seen[rank]);
  }
  void until(const std::function<bool()>& done) {
    check::until(done, [&] {
      for (Rank rank = 0; rank < fabric.size(); ++rank) pass(rank);
    });
  }
  const Completion* find(Rank rank, Completion::Kind kind) const { return find_first(seen[rank], kind); }
  double counter(Rank rank, const std::string& wanted) const { return check::counter(*fabric[rank], wanted); }
  std::vector<std::unique_ptr<Made>> fabric;
  std::vector<std::vector<Completion>> seen;
};

}  // namespace nbc::check
