#include "disk/kernel.h"

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <sys/stat.h>
#include <unistd.h>
#include <vector>

namespace stator::disk {

namespace {

// The file that the loader is given. A name is never used twice: the loader knows libraries by their names.
class Unpacked {
 public:
  Unpacked(std::string_view bytes, const std::string& folder) {
    std::vector<char> name(folder.begin(), folder.end());
    constexpr std::string_view kEnd = "/kernel-XXXXXX.so";
    name.insert(name.end(), kEnd.begin(), kEnd.end());
    name.push_back('\0');
    const int file = ::mkstemps(name.data(), 3);
    if (file < 0) {
      problem_ = std::strerror(errno);
      return;
    }
    path_ = name.data();
    while (!bytes.empty()) {
      const ssize_t put = ::write(file, bytes.data(), bytes.size());
      if (put < 0 && errno == EINTR) continue;
      if (put < 0) {
        problem_ = std::strerror(errno);
        break;
      }
      bytes.remove_prefix(static_cast<size_t>(put));
    }
    ::close(file);
  }
  ~Unpacked() {
    if (!path_.empty()) ::unlink(path_.c_str());
  }
  Unpacked(const Unpacked&) = delete;
  Unpacked& operator=(const Unpacked&) = delete;
  const std::string& path() const { return path_; }
  const std::string& problem() const { return problem_; }

 private:
  std::string path_, problem_;
};

// Whether nobody else could put another file in the place of ours.
bool isSafe(const std::string& folder) {
  struct stat facts = {};
  if (::stat(folder.c_str(), &facts) != 0) return false;
  const bool ours = facts.st_uid == ::geteuid() || facts.st_uid == 0;
  return ours && ((facts.st_mode & 022) == 0 || (facts.st_mode & S_ISVTX) != 0);
}

Ref<> loadFrom(std::string_view bytes, const std::string& folder, std::string& problem) {
  if (!isSafe(folder)) {
    problem = folder + " can be written by others";
    return nullptr;
  }
  const Unpacked file(bytes, folder);
  problem = file.problem();
  if (!problem.empty()) return nullptr;
  void* library = ::dlopen(file.path().c_str(), RTLD_NOW | RTLD_LOCAL);
  void* made = library != nullptr ? ::dlsym(library, "PyInit_kernel") : nullptr;
  if (made == nullptr) {
    const char* why = ::dlerror();
    problem = why != nullptr ? why : "it has no kernel";
    return nullptr;
  }
  Ref<> module = Ref<>::steal(reinterpret_cast<PyObject* (*)()>(made)());
  Ref<> kernel = module ? Ref<>::steal(PyObject_GetAttrString(module.get(), "kernel")) : Ref<>();
  if (!kernel) {
    PyErr_Clear();
    problem = "its module cannot be made";
  }
  return kernel;
}

}  // namespace

Ref<> loadKernel(std::string_view bytes, const std::string& folder, std::string& problem) {
  Ref<> kernel = loadFrom(bytes, folder, problem);
  if (kernel) return kernel;
  // The folder may be one that cannot be written to, or where nothing may be executed.
  const char* other = std::getenv("TMPDIR");
  std::string second_problem;
  kernel = loadFrom(bytes, other != nullptr && *other != '\0' ? other : "/tmp", second_problem);
  if (kernel) problem.clear();
  return kernel;
}

}  // namespace stator::disk
