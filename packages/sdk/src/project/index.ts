/**
 * Decides which files of a project are trusted. A project file can name a server that receives contexts and proposes changes. So it is trusted only
 * if it cannot come from another user of the machine or from the author of a cloned repository.
 *
 * Invariants:
 * I1 No file outside of the repository of the working directory is read (search.ts).
 * I2 A file is trusted only if the user or root owns it and its directories, and others cannot write them (ownership.ts).
 * I3 A server file is trusted only with this user's seal for this very folder. Other files in `.passover` are trusted only if the folder has such a
 * seal and git does not track it (seal.ts, project-directory.ts).
 * I4 A file that is not trusted is reported with the reason and the remedy. It never changes the behaviour.
 */

export { findProjectServer } from './find-project-server.js'
export { ownershipFault, type TrustIssue } from './ownership.js'
export { folderFault, ownFolder } from './project-directory.js'
export { NoSealingKey } from './seal.js'
export {
  type FoundProject,
  filesUpward,
  type IgnoredFile,
  ignoredText,
  PROJECT_FOLDER,
  type ProjectSearch,
  searchProject,
} from './search.js'
export { readSealed, type ServerFile, serverFilePath, writeServerFile } from './server-file.js'
export { readUserConfig, userConfigPath } from './user-config.js'
