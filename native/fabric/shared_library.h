// A library that a fabric loads when a program asks for it: a machine without it still loads the addon. It is never
// closed, since such libraries keep threads and handlers of their own.
#pragma once
#include <dlfcn.h>

#include <string>

#include "fabric/fabric.h"

namespace nbc {

class SharedLibrary {
 public:
  // `remedy`: what to do where it, or a function of it, is missing. Throws FabricError.
  SharedLibrary(const std::string& transport, const char* name, const char* remedy)
      : name_(name), remedy_(remedy), handle_(dlopen(name, RTLD_NOW | RTLD_LOCAL)) {
    if (handle_ != nullptr) return;
    const char* why = dlerror();
    throw FabricError{"transport '" + transport + "' needs " + name_ + ": " + (why != nullptr ? why : "not found") +
                      "; " + remedy_};
  }

  // dlsym gives the default version of a symbol, which is the one that the headers describe. Throws FabricError.
  template <typename Function>
  void find(const char* symbol, Function& function) const {
    find_if_there(symbol, function);
    if (function == nullptr) throw FabricError{name_ + " has no " + symbol + ": it is too old; " + remedy_};
  }
  // nullptr: it has none.
  template <typename Function>
  void find_if_there(const char* symbol, Function& function) const {
    function = reinterpret_cast<Function>(dlsym(handle_, symbol));
  }

 private:
  std::string name_;
  std::string remedy_;
  void* handle_;
};

}  // namespace nbc
