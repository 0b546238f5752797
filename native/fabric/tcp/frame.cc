#include "fabric/tcp/frame.h"

namespace nbc::tcp {
namespace {

const char* check_message(const FrameHeader& header, uint32_t eager_limit) {
  const size_t inbox = inbox_bytes(eager_limit);
  if (header.bytes > eager_limit + kCommitHead) return "a message that is longer than any";
  if (header.at > inbox || header.bytes > inbox - header.at) return "a message to outside of the mailbox";
  const bool in_control = header.at + header.bytes <= kControlBytes;
  if (!in_control && header.at < kControlBytes) return "a message across the parts of the mailbox";
  if (header.value >> kImmediateBits != 0) return "a note of too many bits";
  return nullptr;
}

const char* check_data(const FrameHeader& header, Rank peer, const Regions& regions) {
  if (header.bytes == 0 || header.bytes > kLargestData) return "data of a length that no rank sends";
  const Region* region = regions.find(header.key, peer);
  // The receive has failed meanwhile: the data are dropped.
  if (region == nullptr && regions.was_open(header.key)) return nullptr;
  if (region == nullptr) return "data for memory that is not exposed to it";
  // In order and without gaps: so `done` proves that all that it names was written.
  if (header.at != region->written) return "data out of order";
  if (header.bytes > region->bytes - region->written) return "more data than were asked for";
  return nullptr;
}

const char* check_done(const FrameHeader& header, Rank peer, const Regions& regions) {
  if (header.bytes != 0) return "a frame with a payload that has none";
  if (header.value >> kImmediateBits != 0) return "an immediate value of too many bits";
  // Of nothing: no memory was exposed for it.
  if (header.key == 0) return header.at == 0 ? nullptr : "the end of data for no memory";
  const Region* region = regions.find(header.key, peer);
  if (region == nullptr && regions.was_open(header.key)) return nullptr;
  if (region == nullptr) return "the end of data for memory that is not exposed to it";
  if (header.at != region->written) return "the end of data before all had come";
  return nullptr;
}

}  // namespace

const char* check(const FrameHeader& header, Rank peer, const Regions& regions, uint32_t eager_limit) {
  switch (header.kind) {
    case FrameKind::message:
      return check_message(header, eager_limit);
    case FrameKind::data:
      return check_data(header, peer, regions);
    case FrameKind::done:
      return check_done(header, peer, regions);
    case FrameKind::failed:
      if (header.bytes != 0) return "a frame with a payload that has none";
      if (header.value >> kImmediateBits != 0) return "an immediate value of too many bits";
      if (header.key < kFirstError || header.key > kLastError) return "an unknown error";
      return nullptr;
    case FrameKind::beat:
      if (header.value == 0 || header.value > kLongestBeat) return "beats at an interval that no rank has";
      [[fallthrough]];
    case FrameKind::closed:
    case FrameKind::lost:
      return header.bytes == 0 ? nullptr : "a frame with a payload that has none";
  }
  return "a frame of an unknown kind";
}

}  // namespace nbc::tcp
