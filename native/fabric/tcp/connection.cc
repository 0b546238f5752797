#include "fabric/tcp/connection.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <sys/uio.h>
#include <utility>

#include "copy.h"

namespace nbc::tcp {
namespace {

constexpr size_t kFrames = 16;  // in one write; one more where the end of a put goes with its data

}  // namespace

Connection::Connection(Rank peer, uint32_t eager_limit, Socket socket, Counters& counters)
    : peer(peer),
      socket_(std::move(socket)),
      counters_(counters),
      eager_limit_(eager_limit),
      out_(eager_limit),
      in_(eager_limit),
      buffer_(new std::byte[kBuffer]) {}

bool Connection::broke(const char* why, int error) {
  if (why_[0] != '\0') return false;
  why_ = why;
  error_ = error;
  return false;
}

// --- sending ---------------------------------------------------------------------------------------------------------

void Connection::queue_message(const void* written, size_t bytes, uint32_t note) {
  const auto* from = static_cast<const std::byte*>(written);
  Message message{};
  message.header = {FrameKind::message, static_cast<uint32_t>(bytes), note, 0,
                    static_cast<uint64_t>(from - out_.data())};
  message.from = from;
  if (bytes <= kSmall) {
    std::memcpy(message.small, from, bytes);
    message.from = nullptr;
  }
  queue(message);
}

void Connection::queue_put(const Put& put) {
  puts_bytes_ += put.bytes + sizeof(FrameHeader);
  puts_.push(put);
}

void Connection::queue(FrameKind kind, uint32_t value, uint32_t key, uint64_t at) {
  Message message{};
  message.header = {kind, 0, value, key, at};
  queue(message);
}

void Connection::queue(const Message& message) {
  messages_bytes_ += message.length();
  messages_.push(message);
}

void Connection::queue_failure(uint32_t immediate, Error error, uint64_t bytes) {
  queue(FrameKind::failed, immediate, static_cast<uint32_t>(error), bytes);
}

void Connection::queue_closed() {
  queue(FrameKind::closed, 0, 0, 0);
  closing_ = true;
}

// Decides what comes next. While data are among the frames, nothing is added before these have left, so that a message
// that is queued meanwhile comes right behind them, and waits for kLargestData of data at most.
void Connection::prepare(bool puts) {
  if (data_prepared_ > 0) return;
  while (frames_.size() < kFrames && prepared_ < kLargestData) {
    if (!messages_.empty()) {
      frames_.push({messages_.front(), false});
      prepared_ += messages_.front().length();
      messages_bytes_ -= messages_.front().length();
      messages_.pop();
    } else if (puts && !closing_ && puts_framed_ < puts_.size()) {
      prepare_put();
    } else {
      break;
    }
  }
}

// One piece of the first put that is not in frames yet; its end goes with the last piece.
void Connection::prepare_put() {
  Put& put = puts_[puts_framed_];
  if (put.error != Error::none) {
    const auto error = static_cast<uint32_t>(put.error);
    frames_.push({{{FrameKind::failed, 0, put.immediate, error, put.told}, nullptr, {}}, true});
    prepared_ += sizeof(FrameHeader);
    ++puts_framed_;
    puts_bytes_ -= sizeof(FrameHeader);
    return;
  }
  const auto add = [&](const Frame& frame) {
    prepared_ += frame.message.length();
    frames_.push(frame);
  };
  if (put.framed < put.bytes) {
    const auto bytes = static_cast<uint32_t>(std::min<size_t>(put.bytes - put.framed, kLargestData - prepared_));
    add({{{FrameKind::data, bytes, 0, put.key, put.framed}, put.from + put.framed, {}}, false});
    put.framed += bytes;
    ++data_prepared_;
    puts_bytes_ -= bytes;
  }
  if (put.framed == put.bytes) {
    add({{{FrameKind::done, 0, put.immediate, put.key, put.bytes}, nullptr, {}}, true});
    ++puts_framed_;
    puts_bytes_ -= sizeof(FrameHeader);
  }
}

bool Connection::send(size_t budget) {
  for (;;) {
    prepare(budget > 0);
    if (frames_.empty()) return true;
    iovec parts[2 * (kFrames + 1)];
    size_t count = 0;
    size_t skip = sent_of_first_;
    const auto add = [&](const void* from, size_t bytes) {
      const size_t left_out = std::min(skip, bytes);
      skip -= left_out;
      if (bytes > left_out)
        parts[count++] = {const_cast<std::byte*>(static_cast<const std::byte*>(from)) + left_out, bytes - left_out};
    };
    for (size_t i = 0; i < frames_.size(); ++i) {
      const Frame& frame = frames_[i];
      add(&frame.message.header, sizeof(FrameHeader));
      add(frame.payload(), frame.message.header.bytes);
    }
    msghdr message{};
    message.msg_iov = parts;
    message.msg_iovlen = count;
    const ssize_t bytes = ::sendmsg(socket_.get(), &message, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (bytes < 0) {
      if (errno == EINTR) continue;
      if (errno == EAGAIN) {
        blocked_ = true;
        return true;
      }
      return broke(std::strerror(errno), errno);
    }
    ++counters_.writes;
    sent(static_cast<size_t>(bytes));
    budget -= std::min(budget, static_cast<size_t>(bytes));
  }
  return true;
}

void Connection::sent(size_t bytes) {
  counters_.bytes_sent += bytes;
  prepared_ -= bytes;
  bytes += sent_of_first_;
  while (!frames_.empty() && bytes >= frames_.front().message.length()) {
    const Frame& frame = frames_.front();
    bytes -= frame.message.length();
    data_prepared_ -= frame.message.header.kind == FrameKind::data;
    if (data_prepared_ == 0) kept_.clear();
    if (frame.ends_put) {
      if (puts_.front().cookie != nullptr) done_.push(puts_.front().cookie);
      puts_.pop();
      --puts_framed_;
    }
    frames_.pop();
    ++counters_.frames_sent;
  }
  sent_of_first_ = bytes;
}

// What is in frames leaves from a copy, all of it before any other data; the rest does not leave.
void Connection::retract(void* cookie, Error error, uint64_t told) {
  for (size_t i = 0; i < puts_.size(); ++i) {
    Put& put = puts_[i];
    if (put.cookie != cookie) continue;
    for (size_t f = 0; f < frames_.size(); ++f) {
      Message& message = frames_[f].message;
      if (message.header.kind != FrameKind::data || message.from < put.from || message.from >= put.from + put.bytes)
        continue;
      kept_.emplace_back(message.from, message.from + message.header.bytes);
      message.from = kept_.back().data();
    }
    if (i >= puts_framed_) {
      put.error = error;
      put.told = told;
      puts_bytes_ -= put.bytes - put.framed;
    }
    done_.push(std::exchange(put.cookie, nullptr));
    return;
  }
}

bool Connection::take_done(void*& cookie) {
  if (done_.empty()) return false;
  cookie = done_.front();
  done_.pop();
  return true;
}

void Connection::give_up() {
  for (size_t i = 0; i < puts_.size(); ++i) {
    if (puts_[i].cookie != nullptr) done_.push(puts_[i].cookie);
  }
  puts_.clear();
  frames_.clear();
  messages_.clear();
  kept_.clear();
  puts_framed_ = prepared_ = data_prepared_ = messages_bytes_ = puts_bytes_ = sent_of_first_ = 0;
}

// --- receiving -------------------------------------------------------------------------------------------------------

bool Connection::receive(Regions& regions, size_t budget, Ring<Completion>& events) {
  more_ = false;
  for (;;) {
    iovec parts[2];
    int count = 1;
    Region* region = nullptr;
    if (message_left_ > 0) {
      parts[0] = {in_.data() + message_.at + message_.bytes - message_left_, message_left_};
      parts[1] = {buffer_.get(), kBuffer};
      count = 2;
    } else if (data_left_ == 0) {
      // More data of the same put are likely to come: only their header, so that they are read straight into place.
      const bool header = amid_put_ && have_ < sizeof(FrameHeader);
      parts[0] = {buffer_.get() + have_, (header ? sizeof(FrameHeader) : kBuffer) - have_};
    } else if ((region = regions.find(data_key_, peer)) != nullptr && !region->revoked) {
      parts[0] = {region->data + region->written, data_left_};
      parts[1] = {buffer_.get(), sizeof(FrameHeader)};
      count = 2;
    } else {
      // Concealed or revoked meanwhile: the rest is dropped.
      parts[0] = {buffer_.get(), std::min(data_left_, kBuffer)};
    }
    size_t asked = 0;
    for (int i = 0; i < count; ++i) asked += parts[i].iov_len;
    const ssize_t got = ::readv(socket_.get(), parts, count);
    if (got <= 0) {
      if (got < 0 && errno == EINTR) continue;
      if (got < 0 && errno == EAGAIN) {
        await_bytes();
        return true;
      }
      return got == 0 ? broke("it has ended") : broke(std::strerror(errno), errno);
    }
    ++counters_.reads;
    heard = true;
    const auto bytes = static_cast<size_t>(got);
    counters_.bytes_received += bytes;
    const size_t of_message = std::min(bytes, message_left_);
    if (of_message > 0 && (message_left_ -= of_message) == 0) handle(message_, events);
    const size_t of_data = std::min(bytes - of_message, data_left_);
    if (region != nullptr) region->written += of_data;
    data_left_ -= of_data;
    have_ += bytes - of_message - of_data;
    if (!parse(regions, events)) return false;
    // Less than asked for: that was all.
    if (bytes < asked) {
      await_bytes();
      return true;
    }
    if (budget <= bytes) {
      more_ = true;
      return true;
    }
    budget -= bytes;
  }
}

void Connection::await_bytes() {
  const size_t bytes = data_left_ > 0 ? data_left_ + sizeof(FrameHeader) : std::max<size_t>(message_left_, 1);
  if (bytes == awaited_) return;
  awaited_ = bytes;
  wake_at(socket_, bytes);
}

// Takes whole frames from the buffer, and what is there of data.
bool Connection::parse(Regions& regions, Ring<Completion>& events) {
  size_t at = 0;
  while (data_left_ == 0 && message_left_ == 0 && have_ - at >= sizeof(FrameHeader)) {
    FrameHeader header;
    std::memcpy(&header, buffer_.get() + at, sizeof header);
    if (const char* wrong = check(header, peer, regions, eager_limit_); wrong != nullptr) return broke(wrong, EPROTO);
    const std::byte* payload = buffer_.get() + at + sizeof header;
    const size_t here = have_ - at - sizeof header;
    if (header.kind == FrameKind::data) {
      Region* region = regions.find(header.key, peer);
      const size_t copied = std::min<size_t>(here, header.bytes);
      if (region != nullptr) {
        if (!region->revoked) copy_bytes(region->data + region->written, payload, copied);
        region->written += copied;
        counters_.copied += copied;
      }
      data_left_ = header.bytes - copied;
      data_key_ = region != nullptr ? header.key : 0;
      at += sizeof header + copied;
    } else if (here < header.bytes && header.at >= kControlBytes) {
      // Nobody looks into a slot before all of its message is there, so the rest is read straight into place.
      std::memcpy(in_.data() + header.at, payload, here);
      message_ = header;
      message_left_ = header.bytes - here;
      at += sizeof header + here;
    } else {
      if (here < header.bytes) break;
      // Whole, so that nobody sees half of a word of an acknowledgement.
      if (header.kind == FrameKind::message) std::memcpy(in_.data() + header.at, payload, header.bytes);
      if (header.kind == FrameKind::lost) return counted_lost = true, broke("it has given this rank up", ETIMEDOUT);
      handle(header, events);
      at += sizeof header + header.bytes;
    }
    amid_put_ = header.kind == FrameKind::data;
    ++counters_.frames_received;
  }
  have_ -= at;
  if (at > 0 && have_ > 0) std::memmove(buffer_.get(), buffer_.get() + at, have_);
  return true;
}

void Connection::handle(const FrameHeader& header, Ring<Completion>& events) {
  switch (header.kind) {
    case FrameKind::message:
      events.push({Completion::Kind::message, Error::none, peer, header.value, 0, nullptr});
      break;
    case FrameKind::done:
      events.push({Completion::Kind::immediate, Error::none, peer, header.value, header.at, nullptr});
      break;
    case FrameKind::failed:
      events.push(
          {Completion::Kind::immediate, static_cast<Error>(header.key), peer, header.value, header.at, nullptr});
      break;
    case FrameKind::closed:
      peer_closed = true;
      acknowledge_now(socket_);
      break;
    case FrameKind::beat:
      beat = header.value;
      break;
    case FrameKind::data:
    case FrameKind::lost:
      break;
  }
}

}  // namespace nbc::tcp
