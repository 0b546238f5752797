// Which addresses two ports talk by, and which of a machine's ports a rank takes: tables, without a device.
#include <algorithm>
#include <arpa/inet.h>
#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "fabric/verbs/card.h"
#include "fabric/verbs/device_choice.h"
#include "fabric/verbs/offer.h"
#include "fabric/verbs/reach.h"
#include "libof/mailbox.h"
#include "test/check.h"

namespace {

using namespace nbc::check;
using namespace nbc::verbs;

constexpr auto v1 = GidKind::roce_v1;
constexpr auto v2 = GidKind::roce_v2;
constexpr auto ib = GidKind::infiniband;

// An address with its prefix: '10.1.0.1/24' or 'fe80::1/64'.
Gid gid(GidKind kind, const std::string& text) {
  Gid made{};
  made.kind = kind;
  const size_t slash = text.find('/');
  const std::string address = text.substr(0, slash);
  const int prefix = std::stoi(text.substr(slash + 1));
  const bool v4 = address.find(':') == std::string::npos;
  const std::string whole = v4 ? "::ffff:" + address : address;
  CHECK_EQ(inet_pton(AF_INET6, whole.c_str(), made.raw), 1);
  made.prefix = static_cast<uint8_t>(prefix + (v4 ? 96 : 0));
  return made;
}

Port port_of(std::vector<Gid> gids, LinkLayer link = LinkLayer::ethernet) {
  Port port{};
  port.link = link;
  port.mtu = 3;
  for (const Gid& each : gids) port.gids[port.count++] = each;
  return port;
}

Port infiniband(const std::string& prefix, uint8_t has_router = 0) {
  Port port = port_of({gid(ib, prefix + "/64")}, LinkLayer::infiniband);
  port.lid = 5;
  port.has_router = has_router;
  return port;
}

struct Row {
  const char* what;
  std::vector<Gid> mine;
  std::vector<Gid> theirs;
  int wants_mine;  // index; -1: there is no way
  int wants_theirs;
};

const std::vector<Row> kRows = {
    {"the only pair", {gid(v2, "10.1.0.1/24")}, {gid(v2, "10.1.0.2/24")}, 0, 0},
    {"tables in another order",
     {gid(v1, "10.1.0.1/24"), gid(v2, "10.1.0.1/24")},
     {gid(v2, "10.1.0.2/24"), gid(v1, "10.1.0.2/24")},
     1,
     0},
    {"IPv4 before IPv6",
     {gid(v2, "fd00::1/64"), gid(v2, "10.1.0.1/24")},
     {gid(v2, "10.1.0.2/24"), gid(v2, "fd00::2/64")},
     1,
     0},
    {"the shared one of two VLANs",
     {gid(v2, "10.1.0.1/24"), gid(v2, "10.2.0.1/24")},
     {gid(v2, "10.3.0.2/24"), gid(v2, "10.2.0.2/24")},
     1,
     1},
    {"a shared subnet of IPv6 before a route of IPv4",
     {gid(v2, "10.1.0.1/24"), gid(v2, "fd00::1/64")},
     {gid(v2, "10.2.0.1/24"), gid(v2, "fd00::2/64")},
     1,
     1},
    {"a route of IPv4 before link-local addresses",
     {gid(v2, "fe80::1/64"), gid(v2, "10.1.0.1/24")},
     {gid(v2, "fe80::2/64"), gid(v2, "10.2.0.1/24")},
     1,
     1},
    {"RoCE v2 between subnets before RoCE v1 in one",
     {gid(v1, "10.1.0.1/24"), gid(v2, "10.5.0.1/24")},
     {gid(v1, "10.1.0.2/24"), gid(v2, "10.6.0.1/24")},
     1,
     1},
    {"RoCE v1 where one side has nothing else",
     {gid(v2, "10.1.0.1/24"), gid(v1, "10.1.0.1/24")},
     {gid(v1, "10.1.0.2/24")},
     1,
     0},
    {"link-local where nothing else is there",
     {gid(v2, "fe80::1/64")},
     {gid(v2, "10.1.0.2/24"), gid(v2, "fe80::2/64")},
     0,
     1},
    {"a subnet that only one side takes for shared",
     {gid(v2, "10.1.0.1/24"), gid(v2, "10.9.0.1/16")},
     {gid(v2, "10.1.0.200/25"), gid(v2, "10.9.1.1/16")},
     1,
     1},
    {"prefixes that end inside a byte",
     {gid(v2, "10.1.0.1/30"), gid(v2, "10.1.0.5/30")},
     {gid(v2, "10.1.0.6/30")},
     1,
     0},
    {"RoCE v1 and v2", {gid(v1, "10.1.0.1/24")}, {gid(v2, "10.1.0.2/24")}, -1, -1},
    {"IPv4 and IPv6", {gid(v2, "10.1.0.1/24")}, {gid(v2, "fd00::2/64"), gid(v2, "fe80::2/64")}, -1, -1},
    {"no address at all", {gid(v2, "10.1.0.1/24")}, {}, -1, -1},
};

TEST(both_sides_choose_one_pair_of_addresses) {
  for (const Row& row : kRows) {
    const Port mine = port_of(row.mine);
    const Port theirs = port_of(row.theirs);
    const auto way = choose_way(mine, theirs);
    const auto back = choose_way(theirs, mine);
    const bool as_wanted = way ? way->mine == row.wants_mine && way->theirs == row.wants_theirs : row.wants_mine < 0;
    if (!as_wanted) throw Failure{std::string(row.what) + ": another pair"};
    if (way.has_value() != back.has_value() || (way && (way->mine != back->theirs || way->theirs != back->mine)))
      throw Failure{std::string(row.what) + ": the peer chooses another pair"};
  }
}

// Four equally good pairs: the table of the one is in another order than that of the other.
TEST(equally_good_pairs_are_told_apart_by_their_bytes) {
  const Gid a = gid(v2, "10.1.0.1/24"), b = gid(v2, "10.1.0.7/24"), c = gid(v2, "10.1.0.2/24"),
            d = gid(v2, "10.1.0.9/24");
  for (const auto& mine : {port_of({a, b}), port_of({b, a})}) {
    for (const auto& theirs : {port_of({c, d}), port_of({d, c})}) {
      const auto way = choose_way(mine, theirs);
      const auto back = choose_way(theirs, mine);
      CHECK(way && back);
      CHECK_EQ(std::memcmp(mine.gids[way->mine].raw, a.raw, 16), 0);
      CHECK_EQ(std::memcmp(theirs.gids[way->theirs].raw, c.raw, 16), 0);
      CHECK(way->mine == back->theirs && way->theirs == back->mine);
    }
  }
}

// A port of which nothing but the kinds of its addresses tells them apart: the peer's table is in another order.
TEST(the_better_kind_counts_before_the_order_of_the_tables) {
  const auto text = "10.1.0.1/24";
  for (const auto& [better, worse] : {std::pair{v2, v1}, std::pair{v2, ib}, std::pair{v1, ib}}) {
    const Port mine = port_of({gid(worse, text), gid(better, text)});
    const Port theirs = port_of({gid(better, text), gid(worse, text)});
    const auto way = choose_way(mine, theirs);
    const auto back = choose_way(theirs, mine);
    CHECK(way && way->mine == 1 && way->theirs == 0);
    CHECK(back && back->mine == 0 && back->theirs == 1);
  }
}

TEST(infiniband_and_roce_refuse_each_other) {
  const Port roce = port_of({gid(v2, "10.1.0.1/24")});
  const Port other = infiniband("fe80::2");
  CHECK(!choose_way(roce, other) && !choose_way(other, roce));
  const std::string why = why_no_way(roce, other, "rank 1 of the world", "rxe0");
  for (const char* part :
       {"rank 1 of the world is attached to InfiniBand", "by rxe0, to Ethernet (RoCE)", "NBC_VERBS_DEVICE"})
    if (why.find(part) == std::string::npos) throw Failure{why};
}

TEST(a_refusal_names_the_addresses_of_both) {
  const std::string why = why_no_way(port_of({gid(v1, "10.1.0.1/24"), gid(v1, "fe80::1/64")}),
                                     port_of({gid(v2, "10.1.0.2/24")}), "rank 3", "mlx5_0");
  for (const char* part : {"rank 3 has no address", "it has RoCE v2 10.1.0.2/24",
                           "by mlx5_0, has RoCE v1 10.1.0.1/24, RoCE v1 fe80::1/64", "NBC_VERBS_GID_INDEX"})
    if (why.find(part) == std::string::npos) throw Failure{why};
  CHECK_EQ(list_of(port_of({})), std::string("none"));
}

TEST(a_global_header_goes_with_what_needs_one) {
  const auto needs = [](const Port& a, const Port& b) { return needs_global_header(a, b, *choose_way(a, b)); };
  const Port here = infiniband("fe80::1");
  CHECK(!needs(here, infiniband("fe80::2")));
  CHECK(needs(here, infiniband("fec0::2")));
  CHECK(needs(here, infiniband("fe80::2", 1)));
  CHECK(needs(infiniband("fe80::2", 1), here));
  CHECK(needs(port_of({gid(v2, "10.1.0.1/24")}), port_of({gid(v2, "10.1.0.2/24")})));
}

TEST(what_is_no_port_is_found_out) {
  const Port good = port_of({gid(v2, "10.1.0.1/24")});
  CHECK(makes_sense(good));
  const auto bad = [&](auto change) {
    Port port = good;
    change(port);
    return !makes_sense(port);
  };
  CHECK(bad([](Port& port) { port.link = static_cast<LinkLayer>(2); }));
  CHECK(bad([](Port& port) { port.mtu = 0; }));
  CHECK(bad([](Port& port) { port.mtu = 6; }));
  CHECK(bad([](Port& port) { port.count = kMostGids + 1; }));
  CHECK(bad([](Port& port) { port.gids[0].kind = static_cast<GidKind>(3); }));
  CHECK(bad([](Port& port) { port.gids[0].prefix = 129; }));
  CHECK(bad([](Port& port) { port.gids[0].prefix = 95; }));
}

// What ranks tell each other before they open.
TEST(offers_tell_whether_two_ranks_reach_each_other) {
  const std::string here = offer_of(port_of({gid(v2, "10.1.0.1/24")}));
  const auto why = [&](const std::string& there) { return why_not_by_verbs(here, there, "rank 1", "rxe0"); };
  CHECK_EQ(why(offer_of(port_of({gid(v2, "10.1.0.2/24")}))), std::string());
  CHECK(why(offer_of(port_of({gid(v1, "10.1.0.2/24")}))).find("rank 1 has no address (GID)") == 0);
  CHECK(why(offer_of(infiniband("fe80::1"))).find("rank 1 is attached to InfiniBand") == 0);
  std::string other_version = here;
  other_version[0] = other_version[0] == '0' ? '1' : '0';
  std::string no_digit = here;
  no_digit[9] = 'x';
  for (const std::string& odd : {other_version, no_digit, here + "00", here.substr(2), std::string()})
    CHECK(why(odd).find("rank 1 has another version") == 0);
}

// --- ports of one machine --------------------------------------------------------------------------------------------

Choice choice(const std::string& device, uint32_t megabits, uint32_t distance, const Port& port) {
  Choice made;
  made.device = device;
  made.number = 1;
  made.megabits = megabits;
  made.distance = distance;
  made.port = port;
  return made;
}

std::string order_of(const std::vector<Choice>& choices, uint32_t turn) {
  std::string names;
  for (const size_t each : in_order(choices, turn)) names += (names.empty() ? "" : " ") + choices[each].device;
  return names;
}

TEST(ports_are_ranked_by_link_speed_and_distance) {
  const Port roce = port_of({gid(v2, "10.1.0.1/24")});
  const std::vector<Choice> choices = {choice("slow", 25'000, 10, roce), choice("far", 100'000, 21, roce),
                                       choice("near", 100'000, 10, roce),
                                       choice("ib", 10'000, 21, infiniband("fe80::1"))};
  CHECK_EQ(order_of(choices, 0), std::string("ib near far slow"));
  CHECK_EQ(order_of(choices, 7), std::string("ib near far slow"));
  CHECK_EQ(order_of({}, 3), std::string());
}

TEST(ranks_take_equal_ports_of_one_subnet_in_turns) {
  const auto at = [](const char* address) { return port_of({gid(v2, "fe80::1/64"), gid(v2, address)}); };
  const std::vector<Choice> choices = {
      choice("a", 100'000, 10, at("10.1.0.1/24")), choice("b", 100'000, 10, at("10.2.0.1/24")),
      choice("c", 100'000, 10, at("10.1.0.3/24")), choice("d", 100'000, 21, at("10.1.0.4/24"))};
  CHECK_EQ(order_of(choices, 0), std::string("a c b d"));
  CHECK_EQ(order_of(choices, 1), std::string("c a b d"));
  CHECK_EQ(order_of(choices, 2), std::string("a c b d"));
}

TEST(ports_of_different_partitions_do_not_reach_each_other) {
  Port one = infiniband("fe80::1"), other = infiniband("fe80::2");
  one.partition = other.partition = 0x7fff;
  CHECK(choose_way(one, other).has_value());
  other.partition = 5;
  CHECK(!choose_way(one, other).has_value());
  const std::string why = why_no_way(one, other, "rank 1", "ib0");
  CHECK(why.find("partition 0x0005") != std::string::npos);
  CHECK(why.find("partition 0x7fff") != std::string::npos);
}

TEST(there_is_a_receive_for_every_slot_of_the_mailbox) {
  for (uint32_t limit = 0; limit <= 300; ++limit) {
    VerbsOptions options;
    options.make_receives_for(nbc::libof::eager_slots(limit));
    CHECK(options.receive_depth >= nbc::libof::eager_slots(limit) + nbc::libof::kRtrSlots);
    CHECK(options.receive_depth >= 256);
  }
}

// An attempt takes 4.096 µs × 2^timeout at least, and there are retries + 1 of them.
TEST(a_network_may_be_away_for_three_fifths_of_the_time_of_a_peer) {
  for (const int64_t milliseconds : {1000, 4000, 10'000, 30'000, 3'600'000}) {
    VerbsOptions options;
    options.give_up_after(milliseconds);
    const double device = (options.retries + 1) * std::ldexp(4.096e-3, options.timeout);
    CHECK(device >= 0.6 * static_cast<double>(milliseconds));
    CHECK(device <= 1.2 * static_cast<double>(milliseconds));
    CHECK(options.silence <= std::max<int64_t>(milliseconds / 1000 - 2, 2));
  }
}

TEST(a_device_sends_again_after_the_time_that_was_asked_for) {
  for (const uint64_t milliseconds : {1, 20, 500, 3000, 86'400'000}) {
    VerbsOptions options;
    options.resend_milliseconds = milliseconds;
    options.retries = 3;
    options.give_up_after(10'000);
    const double device = std::ldexp(4.096e-3, options.timeout);
    CHECK(options.timeout == 31 || device >= static_cast<double>(milliseconds));
    CHECK(device <= 2.1 * static_cast<double>(milliseconds));
    CHECK_EQ(options.retries, 3);
    CHECK_EQ(options.silence, 8u);
  }
}

TEST(a_card_is_read_back_and_what_is_none_is_refused) {
  Card card{};
  card.version = kCardVersion;
  card.port = port_of({gid(v2, "10.1.0.1/24")});
  card.queue_pair = 101;
  Card read{};
  CHECK(read_card(bytes_of(card), read));
  CHECK_EQ(read.queue_pair, 101u);
  CHECK_EQ(nbc::cards::version_of(bytes_of(card)), kCardVersion);
  CHECK(!read_card(bytes_of(card).substr(1), read));
  CHECK(!read_card("", read));
  CHECK_EQ(nbc::cards::version_of("abc"), 0u);
  card.port.mtu = 77;
  CHECK(!read_card(bytes_of(card), read));
  card.port.mtu = 3;
  card.eager = static_cast<Eager>(7);
  CHECK(!read_card(bytes_of(card), read));
}

TEST(speeds_are_those_of_the_standard) {
  CHECK_EQ(megabits_of(2, 16), 56'000u);    // FDR, 4x
  CHECK_EQ(megabits_of(2, 64), 200'000u);   // HDR, 4x
  CHECK_EQ(megabits_of(2, 128), 400'000u);  // NDR, 4x
  CHECK_EQ(megabits_of(1, 1), 2'500u);
  CHECK_EQ(megabits_of(16, 32), 50'000u);
  CHECK_EQ(megabits_of(3, 32), 0u);
}

}  // namespace

TEST_MAIN(60)
