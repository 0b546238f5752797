// nbc-rank: what nbcrun starts for each rank. It prepares the process and becomes the program:
//
//   nbc-rank LAUNCHER PROCESSOR FILE ARGUMENTS…      LAUNCHER: process id of nbcrun; PROCESSOR: a number, or - for any
//
// Node.js itself could only give a rank a session of its own. But Linux shares the processors out by session first
// (autogroup), and in a session of its own a rank that yields has nobody to yield to: 16 ranks on two processors took
// 1.5 to 1.7 times as long. So ranks stay in nbcrun's session, each in a process group, which is what a terminal's
// Ctrl-C and the killing of left-over children need.
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "processor_set.h"

namespace {

constexpr int kNotStarted = 125;  // as nbcrun's own failures
constexpr int kNoProgram = 127;   // as in shells

int failed(const char* what, const char* name, int code) {
  std::fprintf(stderr, "nbcrun: %s %s: %s\n", what, name, std::strerror(errno));
  return code;
}

// In a group of its own a rank would be in the background of nbcrun's terminal: one that writes there is stopped if the
// terminal says so (stty tostop), one that reads is stopped always. A process that has given its terminal up can be
// stopped by neither.
void leave_terminal() {
  const int terminal = open("/dev/tty", O_RDWR | O_CLOEXEC);
  if (terminal < 0) return;  // there is none
  ioctl(terminal, TIOCNOTTY);
  close(terminal);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 4) {
    std::fprintf(stderr, "usage: nbc-rank LAUNCHER PROCESSOR FILE ARGUMENTS... (nbcrun starts it)\n");
    return kNotStarted;
  }
  // A rank ends with its launcher, even if that was killed and the rank is blocked: the kernel sends the signal.
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != std::strtol(argv[1], nullptr, 10)) return kNotStarted;  // it is gone already
  if (setpgid(0, 0) != 0) return failed("no process group for", argv[3], kNotStarted);
  leave_terminal();
  if (std::strcmp(argv[2], "-") != 0) {
    const nbc::ProcessorSet processor(std::strtoul(argv[2], nullptr, 10));
    if (!processor.bind()) return failed("cannot bind a rank to processor", argv[2], kNotStarted);
  }
  execvp(argv[3], argv + 3);
  return failed("cannot start", argv[3], kNoProgram);
}
