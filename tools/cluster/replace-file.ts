import { renameSync, writeFileSync } from 'node:fs'

/** Replaces a file in one step, as editors and kubelet do: a reader sees the old or the new one. */
export function replaceFile(path: string, text: string): void {
  // Not *.yaml: the folder is watched.
  const temporary = `${path}.new`
  writeFileSync(temporary, text)
  renameSync(temporary, path)
}
