// Layout, numbers little-endian:
//   magic (8 bytes), format (4), count of parts (4), key (32), length of the payload (8), sum of the payload (32), sum of all before (32)
//   payload: for each part its length (8) and its bytes
#include "disk/artifact_file.h"

#include "disk/digest.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

namespace stator::disk {

namespace {

constexpr std::string_view kMagic = "STATOR\r\n";
constexpr std::string_view kSuffix = ".stator";
constexpr size_t kSum = 32;
constexpr size_t kUnsummed = 8 + 4 + 4 + kSum + 8 + kSum;
constexpr size_t kHeader = kUnsummed + kSum;
constexpr uint64_t kMost = uint64_t{1} << 32;  // bytes of a file

// Owns a file descriptor.
class File {
 public:
  explicit File(int number) : number_(number) {}
  ~File() {
    if (number_ >= 0) ::close(number_);
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  int get() const { return number_; }
  bool close() { return ::close(std::exchange(number_, -1)) == 0; }

 private:
  int number_;
};

void put(std::string& out, uint64_t number, size_t bytes) {
  for (size_t i = 0; i < bytes; ++i) out += static_cast<char>(number >> (8 * i));
}

uint64_t take(std::string_view bytes, size_t at, size_t count) {
  uint64_t number = 0;
  for (size_t i = 0; i < count; ++i)
    number |= uint64_t{static_cast<uint8_t>(bytes[at + i])} << (8 * i);
  return number;
}

std::string_view view(const Sum& sum) {
  return {reinterpret_cast<const char*>(sum.data()), sum.size()};
}

std::string bytesOf(const std::string& key) {
  auto digit = [](char c) { return c <= '9' ? c - '0' : c - 'a' + 10; };
  std::string bytes;
  for (size_t i = 0; i + 1 < key.size(); i += 2)
    bytes += static_cast<char>(digit(key[i]) << 4 | digit(key[i + 1]));
  return bytes;
}

std::string pathOf(const std::string& folder, const std::string& key) {
  return folder + "/" + key + std::string(kSuffix);
}

std::string lastError() { return std::strerror(errno); }

// All of the file, or a problem.
ReadResult readAll(const std::string& path, bool of_anybody, std::string& bytes) {
  File file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (file.get() < 0) return {{}, errno == ENOENT || errno == ENOTDIR ? "" : lastError()};
  struct stat facts = {};
  if (::fstat(file.get(), &facts) != 0) return {{}, lastError()};
  if (!S_ISREG(facts.st_mode)) return {{}, "it is no regular file"};
  if (!of_anybody && facts.st_uid != ::geteuid() && facts.st_uid != 0)
    return {{}, "it belongs to another user"};
  if (static_cast<uint64_t>(facts.st_size) > kMost) return {{}, "it is too large"};
  bytes.resize(static_cast<size_t>(facts.st_size));
  size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t got = ::read(file.get(), bytes.data() + done, bytes.size() - done);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return {{}, lastError()};
    if (got == 0) break;
    done += static_cast<size_t>(got);
  }
  bytes.resize(done);
  return {Parts(), ""};
}

ReadResult parse(std::string_view bytes, const std::string& key) {
  auto bad = [](const char* problem) { return ReadResult{{}, problem}; };
  if (bytes.size() < kMagic.size() || bytes.substr(0, kMagic.size()) != kMagic)
    return bad(bytes.empty() ? "it is empty" : "it is no file of Stator's");
  if (bytes.size() < kHeader) return bad("its header is cut off");
  if (take(bytes, 8, 4) != kFormat) return bad("it is of another version of Stator");
  if (bytes.substr(kUnsummed, kSum) != view(sumOf(bytes.substr(0, kUnsummed))))
    return bad("its header is damaged");
  if (bytes.substr(16, kSum) != bytesOf(key)) return bad("it is the file of another graph");
  const uint64_t length = take(bytes, 16 + kSum, 8);
  if (bytes.size() - kHeader != length) return bad("it is cut off or has more than it should");
  const std::string_view payload = bytes.substr(kHeader);
  if (bytes.substr(16 + kSum + 8, kSum) != view(sumOf(payload)))
    return bad("its contents are damaged");
  Parts parts;
  size_t at = 0;
  for (uint64_t i = 0; i < take(bytes, 12, 4); ++i) {
    if (payload.size() - at < 8 || payload.size() - at - 8 < take(payload, at, 8))
      return bad("its parts do not fit");
    const size_t size = take(payload, at, 8);
    parts.emplace_back(payload.substr(at + 8, size));
    at += 8 + size;
  }
  return {std::move(parts), ""};
}

std::string writeAll(const std::string& path, mode_t mode, std::string_view bytes) {
  File file(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode));
  if (file.get() < 0) return lastError();
  while (!bytes.empty()) {
    const ssize_t put = ::write(file.get(), bytes.data(), bytes.size());
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) return lastError();
    bytes.remove_prefix(static_cast<size_t>(put));
  }
  return file.close() ? "" : lastError();
}

// Whether it is there in the end. Parents too.
bool makeFolder(const std::string& folder) {
  if (::mkdir(folder.c_str(), 0700) == 0 || errno == EEXIST) return true;
  const size_t slash = folder.rfind('/');
  if (errno != ENOENT || slash == std::string::npos || slash == 0) return false;
  return makeFolder(folder.substr(0, slash)) &&
         (::mkdir(folder.c_str(), 0700) == 0 || errno == EEXIST);
}

// Under another name first: readers see all of it or nothing.
std::string writeParts(const std::string& path, const std::string& key, const Parts& parts,
                       mode_t mode) {
  std::string payload;
  for (const std::string& part : parts) {
    put(payload, part.size(), 8);
    payload += part;
  }
  std::string bytes(kMagic);
  put(bytes, kFormat, 4);
  put(bytes, parts.size(), 4);
  bytes += bytesOf(key);
  put(bytes, payload.size(), 8);
  bytes += view(sumOf(payload));
  bytes += view(sumOf(bytes));
  bytes += payload;
  static std::atomic<unsigned> count = 0;
  const std::string unfinished =
      path + "." + std::to_string(::getpid()) + "." + std::to_string(count++) + ".tmp";
  std::string problem = writeAll(unfinished, mode, bytes);
  if (problem.empty() && ::rename(unfinished.c_str(), path.c_str()) != 0) problem = lastError();
  if (!problem.empty()) ::unlink(unfinished.c_str());
  return problem;
}

}  // namespace

ReadResult readFile(const std::string& path, const std::string& key) {
  std::string bytes;
  ReadResult found = readAll(path, true, bytes);
  return found.parts ? parse(bytes, key) : found;
}

std::string writeFile(const std::string& path, const std::string& key, const Parts& parts) {
  return writeParts(path, key, parts, 0666);
}

ReadResult readArtifact(const std::string& folder, const std::string& key) {
  const std::string path = pathOf(folder, key);
  std::string bytes;
  ReadResult found = readAll(path, false, bytes);
  if (!found.parts) return found;
  found = parse(bytes, key);
  // What is used stays; a folder that cannot be written to has nobody who would drop it.
  if (found.parts) ::utimensat(AT_FDCWD, path.c_str(), nullptr, 0);
  return found;
}

std::string writeArtifact(const std::string& folder, const std::string& key, const Parts& parts) {
  if (!makeFolder(folder)) return lastError();
  return writeParts(pathOf(folder, key), key, parts, 0600);
}

void trimFolder(const std::string& folder, uint64_t limit) {
  struct Kept {
    std::string path;
    uint64_t size;
    struct timespec used;
  };
  constexpr time_t kAbandoned = 3600;  // seconds: nobody writes one file for so long
  DIR* listing = ::opendir(folder.c_str());
  if (listing == nullptr) return;
  std::vector<Kept> all;
  uint64_t total = 0;
  const time_t now = ::time(nullptr);
  while (const dirent* item = ::readdir(listing)) {
    const std::string_view name = item->d_name;
    const std::string path = folder + "/" + std::string(name);
    struct stat facts = {};
    if (name.find(kSuffix) == std::string_view::npos || ::lstat(path.c_str(), &facts) != 0)
      continue;
    if (!S_ISREG(facts.st_mode)) continue;
    if (!name.ends_with(kSuffix)) {
      if (now - facts.st_mtim.tv_sec > kAbandoned) ::unlink(path.c_str());
      continue;
    }
    all.push_back({path, static_cast<uint64_t>(facts.st_size), facts.st_mtim});
    total += all.back().size;
  }
  ::closedir(listing);
  if (total <= limit) return;
  std::sort(all.begin(), all.end(), [](const Kept& left, const Kept& right) {
    if (left.used.tv_sec != right.used.tv_sec) return left.used.tv_sec < right.used.tv_sec;
    return left.used.tv_nsec < right.used.tv_nsec;
  });
  for (const Kept& kept : all) {
    if (total <= limit) break;
    if (::unlink(kept.path.c_str()) == 0) total -= kept.size;
  }
}

}  // namespace stator::disk
