import exported from 'sorted-btree'

/** A sorted map. The package is CommonJS: Node imports its `exports` object, other loaders its default export. */
export const BTree = ('default' in exported ? exported.default : exported) as typeof exported.default
export type Sorted<K, V> = InstanceType<typeof BTree<K, V>>
