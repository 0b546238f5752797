// Flow control and parcels of the verbs fabric, without a device: two sides, and a network between them that refuses
// nothing and forgets nothing, but has only as many receives as there are.
#include <deque>
#include <vector>

#include "fabric/verbs/available.h"
#include "test/check.h"
#include "test/random.h"

#if NBC_HAS_VERBS
#include "fabric/verbs/credits.h"
#include "fabric/verbs/parcel.h"
#include "fabric/verbs/receives.h"

namespace {

using namespace nbc::check;
using nbc::verbs::Credits;

struct Message {
  bool is_send;
  uint32_t payment;
};

// One side of a connection, as connection.cc and receives.cc have it.
struct Side {
  explicit Side(uint32_t share) : credits(share), receives(share + nbc::verbs::SharedReceives::kChain) {}

  void leave(bool is_send) {
    CHECK(peer->receives > 0);  // or the card would have to try again
    --peer->receives;
    credits.spend();
    on_the_way.push_back({is_send, is_send ? credits.pay() : 0});
    ++sent;
  }
  bool post() {
    const uint64_t before = sent;
    for (; !queue.empty() && credits.may_send(); queue.pop_front()) leave(queue.front());
    if (credits.payment_due()) {
      leave(true);
      ++credit_messages;
    }
    return sent != before;
  }
  bool collect(size_t most) {
    size_t count = 0;
    for (; count < most && !peer->on_the_way.empty(); ++count) {
      const Message message = peer->on_the_way.front();
      peer->on_the_way.pop_front();
      CHECK(credits.arrived());
      if (message.is_send) CHECK(credits.paid(message.payment));
      ++used;
    }
    for (; used >= nbc::verbs::SharedReceives::kChain; used -= nbc::verbs::SharedReceives::kChain)
      receives += nbc::verbs::SharedReceives::kChain;
    return count > 0;
  }

  Credits credits;
  Side* peer = nullptr;
  uint32_t receives;
  uint32_t used = 0;
  std::deque<bool> queue;
  std::deque<Message> on_the_way;
  uint64_t sent = 0;
  uint64_t credit_messages = 0;
};

struct Two {
  Two(uint32_t share_a, uint32_t share_b) : a(share_a), b(share_b) {
    a.peer = &b;
    b.peer = &a;
    a.credits.start(share_b);
    b.credits.start(share_a);
  }
  // Until nothing moves any more.
  void settle() {
    uint64_t steps = 0;
    while (a.post() | b.post() | a.collect(32) | b.collect(32)) CHECK(++steps < 1'000'000);
    CHECK(a.queue.empty());
    CHECK(b.queue.empty());
  }
  Side a;
  Side b;
};

TEST(whatever_is_sent_arrives_and_finds_a_receive) {
  for (const uint32_t share_a : {Credits::kLeastShare, 5u, 16u, 64u}) {
    for (const uint32_t share_b : {Credits::kLeastShare, 7u, 16u}) {
      for (uint64_t seed = 1; seed <= 200; ++seed) {
        Random random(seed);
        Two two(share_a, share_b);
        // From only puts to only SENDs, each side for itself.
        const auto sends_a = static_cast<uint32_t>(random.below(5));
        const auto sends_b = static_cast<uint32_t>(random.below(5));
        for (int step = 0; step < 400; ++step) {
          Side& side = random.below(2) == 0 ? two.a : two.b;
          const uint32_t sends = &side == &two.a ? sends_a : sends_b;
          switch (random.below(4)) {
            case 0:
            case 1:
              for (uint64_t i = random.below(share_b); i > 0; --i) side.queue.push_back(random.below(4) < sends);
              break;
            case 2:
              side.post();
              break;
            case 3:
              side.collect(1 + random.below(32));
              break;
          }
        }
        two.settle();
      }
    }
  }
}

// Both send all that they may before either looks.
TEST(both_sides_without_credits_go_on) {
  for (const bool is_send : {true, false}) {
    for (const uint32_t share : {Credits::kLeastShare, 16u}) {
      Two two(share, share);
      for (Side* side : {&two.a, &two.b}) {
        for (int i = 0; i < 1000; ++i) side->queue.push_back(is_send);
        CHECK(side->post());
        CHECK(!side->post());
        CHECK_EQ(side->sent, share - 1);
      }
      two.settle();
      CHECK_EQ(two.a.sent, 1000 + two.a.credit_messages);
    }
  }
}

TEST(credit_messages_answer_half_a_share_and_do_not_go_on_for_ever) {
  Two two(16, 16);
  for (int i = 0; i < 800; ++i) two.a.queue.push_back(false);
  two.settle();
  CHECK(two.b.credit_messages >= 800 / 15);
  CHECK(two.b.credit_messages <= 800 / 8);
  CHECK(two.a.credit_messages <= two.b.credit_messages / 8);
  const uint64_t sent = two.a.sent + two.b.sent;
  two.settle();
  CHECK_EQ(two.a.sent + two.b.sent, sent);
}

TEST(sends_in_both_directions_need_no_credit_messages) {
  Two two(16, 16);
  for (int i = 0; i < 500; ++i) {
    for (Side* side : {&two.a, &two.b}) {
      side->queue.push_back(true);
      side->post();
      side->peer->collect(32);
    }
  }
  CHECK_EQ(two.a.credit_messages + two.b.credit_messages, 0u);
}

TEST(a_peer_that_counts_wrongly_is_found_out) {
  Credits credits(4);
  credits.start(4);
  CHECK(!credits.paid(1));
  credits.spend();
  CHECK(!credits.paid(2));
  CHECK(!credits.paid(UINT32_MAX));
  CHECK(credits.paid(1));
  for (int i = 0; i < 4; ++i) CHECK(credits.arrived());
  CHECK(!credits.arrived());
  CHECK_EQ(credits.pay(), 4u);
  CHECK(credits.arrived());
}

TEST(parcels_stay_within_the_box) {
  using nbc::verbs::Header;
  using nbc::verbs::kBoxBytes;
  std::vector<std::byte> message(sizeof(Header) + 100);
  nbc::verbs::Parcel parcel;
  const auto fits = [&](uint64_t offset, size_t bytes) {
    const Header header{7, static_cast<uint32_t>(offset)};
    std::memcpy(message.data(), &header, sizeof header);
    return open_parcel(message.data(), sizeof header + bytes, parcel);
  };
  CHECK(fits(0, 0));
  CHECK(fits(64, 100));
  CHECK_EQ(parcel.header.immediate, 7u);
  CHECK_EQ(parcel.header.offset, 64u);
  CHECK_EQ(parcel.bytes, 100u);
  CHECK(parcel.data == message.data() + sizeof(Header));
  CHECK(fits(kBoxBytes - 100, 100));
  CHECK(!fits(kBoxBytes - 99, 100));
  CHECK(fits(kBoxBytes, 0));
  CHECK(!fits(kBoxBytes + 1, 0));
  CHECK(!fits(0xffff'fff0, 32));
  for (size_t bytes = 0; bytes < sizeof(Header); ++bytes) CHECK(!open_parcel(message.data(), bytes, parcel));
}

}  // namespace
#else
TEST(credits) { throw nbc::check::Skip{"this build has no verbs: <infiniband/verbs.h> was not found"}; }
#endif

TEST_MAIN(120)
