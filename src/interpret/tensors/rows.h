// What is special about callables of this room: each of its files brings its rows of the call table.
#pragma once

namespace stator::interpret {

void registerArrays();              // once NumPy has been loaded
void registerCollectives();         // once their module has been loaded, by whoever needs it
void registerDistributedTensors();  // once their module has been loaded
void registerFunctionModes();
void registerNestedTensors();
void registerNonstrict();
void registerNumpyRandom();
void registerOptimizers();
void registerProcessGroups();
void registerRandom();
void registerSubgraphs();
void registerNodesOfPolyfills();
void registerTensorAttributes();
void registerTensorHooks();
void registerTorch();
void registerTorchContexts();
void registerTorchFunction();
void registerTorchStates();
void registerUntypedStorages();

}  // namespace stator::interpret
