// One file for each artifact. A reader gets all of it, checked, or nothing: whatever else lies under the name is a
// reason to say so, never a result. Any number of processes may read and write at once: a file appears whole, by a
// rename, and is never changed.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace stator::disk {

using Parts = std::vector<std::string>;

// Of this layout of files. Part of every key, too.
constexpr uint32_t kFormat = 2;

struct ReadResult {
  std::optional<Parts> parts;
  std::string problem;  // empty: there is no such file
};

// `key`: 64 hexadecimal digits; the file is called after it.
ReadResult readArtifact(const std::string& folder, const std::string& key);
// Makes the folder if need be. Empty: done; otherwise why not, and nothing is left behind.
std::string writeArtifact(const std::string& folder, const std::string& key, const Parts& parts);
// The same for a file of the user's, at any path, whoever it belongs to.
ReadResult readFile(const std::string& path, const std::string& key);
std::string writeFile(const std::string& path, const std::string& key, const Parts& parts);
// Drops what was used least lately until the folder's artifacts take at most `limit` bytes, and what writers that were
// killed left behind.
void trimFolder(const std::string& folder, uint64_t limit);

}  // namespace stator::disk
