// One connection after its handshake: what waits to be sent, and what has begun to arrive.
//
//   sending     messages come before puts, and a put is cut into frames of kLargestData, so a message waits for one of
//               those at most, and for what the kernel has not sent yet (kNotSentBytes in socket.cc). Frames that are
//               next lie in `frames_`, and leave by one gathered write; the first of them may have left in part.
//   receiving   idle or among messages: into a buffer, from which whole frames are taken. In the middle of data:
//               straight into the exposed memory, and no further than to the next header, so that the next data are
//               read straight, too. Only what came in one read with the header of the first data is copied, less than
//               the buffer.
//
// Memory is bounded: LibOF's messages lie in its outbox, puts in the user's memory, and neither is read before the
// socket takes it. A peer that does not read stops what is sent to it, and nothing else.
//
// Threads: the owner of the engine.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "fabric/tcp/box.h"
#include "fabric/tcp/frame.h"
#include "fabric/regions.h"
#include "fabric/tcp/socket.h"
#include "fabric/ring.h"

namespace nbc::tcp {

struct Counters {
  uint64_t frames_sent = 0;
  uint64_t frames_received = 0;
  uint64_t writes = 0;  // system calls that sent
  uint64_t reads = 0;   // system calls that received
  uint64_t bytes_sent = 0;
  uint64_t bytes_received = 0;
  uint64_t copied = 0;  // bytes of data that went through the buffer
};

struct Put {
  const std::byte* from = nullptr;
  size_t bytes = 0;
  size_t framed = 0;  // bytes that are in frames
  uint32_t key = 0;
  uint32_t immediate = 0;
  void* cookie = nullptr;
  Error error = Error::none;  // retracted: nothing more of it is framed but this
  uint64_t told = 0;          // and this
};

class Connection {
 public:
  enum class State { open, broken };

  Connection(Rank peer, uint32_t eager_limit, Socket socket, Counters& counters);
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  // The bytes stay until the peer has reported them; short ones are copied, since LibOF may replace them meanwhile.
  void queue_message(const void* written, size_t bytes, uint32_t note);
  void queue_put(const Put& put);
  // The put with this cookie reads its buffer no more, and is reported as done. The peer learns of it.
  void retract(void* cookie, Error error, uint64_t told);
  void queue_failure(uint32_t immediate, Error error, uint64_t bytes);
  // The last that is sent; puts that have not begun stay behind.
  void queue_closed();
  void queue_beat(uint32_t milliseconds) { queue(FrameKind::beat, milliseconds, 0, 0); }
  void queue_lost() { queue(FrameKind::lost, 0, 0, 0); }

  // Sends what the socket takes: messages, and about `budget` bytes of puts. False: the connection broke, see why.
  bool send(size_t budget);
  // Receives what is there, no more than about `budget` bytes. False: the connection broke, see why; what came before
  // is in `events`.
  bool receive(Regions& regions, size_t budget, Ring<Completion>& events);

  // The region of this key is closed: the rest of its data frame, if one has begun to arrive, is dropped.
  void conceal(uint32_t key) {
    if (data_key_ == key) data_key_ = 0;
  }

  bool has_to_send() const {
    return !frames_.empty() || !messages_.empty() || (!closing_ && puts_framed_ < puts_.size());
  }
  // What flush() sends has left, as far as the socket took it.
  bool flushed() const { return blocked_ || (frames_.empty() && messages_.empty()); }
  // At least 1 if there is anything.
  uint64_t bytes_to_send() const { return prepared_ + messages_bytes_ + (closing_ ? 0 : puts_bytes_); }
  // The socket takes no more for now.
  bool blocked() const { return blocked_; }
  void unblock() { blocked_ = false; }
  // What could not be received within the budget.
  bool has_more() const { return more_; }
  // The cookie of the next put that has left; false: none. A put without a cookie is skipped.
  bool take_done(void*& cookie);
  // Every put that has not left is done now, and nothing is sent any more.
  void give_up();
  void hang_up() { socket_.reset(); }

  const Socket& socket() const { return socket_; }
  const char* why() const { return why_; }
  int error() const { return error_; }
  Mailbox outbox() const { return out_.mailbox(); }
  Mailbox inbox() const { return in_.mailbox(); }

  const Rank peer;
  State state = State::open;
  bool peer_closed = false;   // it said so
  bool listed = false;        // among those with something to send or to receive
  uint32_t watched = 0;       // what epoll has been told to look for
  bool counted_lost = false;  // it has given this rank up
  bool heard = false;         // something has come since the last look
  uint32_t beat = 0;          // the peer's interval, in milliseconds; 0: it does not beat
  uint32_t silent = 0;        // looks in a row at which nothing had come

 private:
  static constexpr size_t kSmall = 64;
  static constexpr size_t kBuffer = 16 * 1024;
  static_assert(kControlBytes + sizeof(FrameHeader) <= kBuffer);

  struct Message {
    FrameHeader header;
    const std::byte* from;  // null: small
    std::byte small[kSmall];
    size_t length() const { return sizeof(FrameHeader) + header.bytes; }
  };
  struct Frame {
    Message message;
    bool ends_put = false;
    const std::byte* payload() const { return message.from != nullptr ? message.from : message.small; }
  };

  void queue(const Message& message);
  void queue(FrameKind kind, uint32_t value, uint32_t key, uint64_t at);
  void prepare(bool puts);
  void prepare_put();
  void sent(size_t bytes);
  // In the middle of a long message nothing can be done until the rest is there; in the middle of data, until the next
  // header is, too, which always follows.
  void await_bytes();
  bool parse(Regions& regions, Ring<Completion>& events);
  void handle(const FrameHeader& header, Ring<Completion>& events);
  bool broke(const char* why, int error = 0);

  Socket socket_;
  Counters& counters_;
  const uint32_t eager_limit_;
  Box out_;
  Box in_;
  Ring<Message> messages_;
  Ring<Put> puts_;
  Ring<Frame> frames_;
  std::vector<std::vector<std::byte>> kept_;  // data in frames_ of puts that were retracted
  Ring<void*> done_;
  size_t sent_of_first_ = 0;   // bytes
  size_t prepared_ = 0;        // bytes in frames_
  size_t data_prepared_ = 0;   // frames of data among them
  size_t messages_bytes_ = 0;  // in messages_, with their headers
  size_t puts_bytes_ = 0;      // of puts_ that are not in frames yet, and a header for the end of each
  size_t puts_framed_ = 0;     // of the first of puts_: how many are in frames to their end
  bool closing_ = false;       // no put begins any more
  bool blocked_ = false;
  bool more_ = false;
  size_t awaited_ = 1;  // bytes that make the socket readable

  std::unique_ptr<std::byte[]> buffer_;
  size_t have_ = 0;          // bytes in the buffer
  FrameHeader message_{};    // of the message that has begun, of which
  size_t message_left_ = 0;  // so many bytes are not in their slot yet
  size_t data_left_ = 0;     // bytes of the data frame that has begun
  uint32_t data_key_ = 0;    // of its region; 0: it is dropped
  bool amid_put_ = false;    // the last frame was data
  const char* why_ = "";     // the first reason
  int error_ = 0;
};

}  // namespace nbc::tcp
