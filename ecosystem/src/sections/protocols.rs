//! Mail, file transfer, directories and shells.

use std::{
    env,
    io::{Read, Write},
    path::Path,
};

use lettre::{Message, SmtpTransport, Transport};
use ramie::net::TcpStream;

use crate::harness::{Kind, Section, Tried, Way, server};

const FILE: &str = "protocols.rs";

pub(super) const SECTIONS: [Section; 5] = [
    Section {
        kind: Kind::Protocol,
        against: "pymap",
        needs: &["ECOSYSTEM_IMAP"],
        note: "`Client::new` takes Ramie's stream, or TLS over it; `ClientBuilder` opens a socket \
               of std.",
        ..Section::new("imap", FILE, imap)
    },
    Section {
        kind: Kind::Protocol,
        way: Way::Pool,
        against: "aiosmtpd",
        needs: &["ECOSYSTEM_SMTP"],
        note: "`SmtpTransport` opens a socket of std.",
        ..Section::new("lettre", FILE, lettre)
    },
    Section {
        kind: Kind::Protocol,
        way: Way::Pool,
        against: "vsftpd",
        needs: &["ECOSYSTEM_FTP"],
        note: "`FtpStream` opens sockets of std, for commands and for data.",
        ..Section::new("suppaftp", FILE, suppaftp)
    },
    Section {
        kind: Kind::Protocol,
        way: Way::Pool,
        against: "OpenSSH",
        needs: &["ECOSYSTEM_SSH", "ECOSYSTEM_SSH_KEY"],
        note: "libssh2 reads and writes the descriptor itself.",
        ..Section::new("ssh2", FILE, ssh2)
    },
    Section {
        kind: Kind::Protocol,
        way: Way::Pool,
        against: "OpenLDAP",
        needs: &["ECOSYSTEM_LDAP"],
        note: "`LdapConn` runs tokio on the calling thread, so call it on the pool. `Ldap`, its \
               async interface, works with `block_on_with`.",
        ..Section::new("ldap3", FILE, ldap3)
    },
];

fn imap() -> Tried {
    let mut client = imap::Client::new(TcpStream::connect(server("ECOSYSTEM_IMAP"))?);
    client.read_greeting()?;
    let mut session = client.login("demouser", "demopass").map_err(|(error, _)| error)?;
    session.create("Drafts")?;
    let letter = b"From: a@example.com\r\nSubject: Fibers\r\n\r\nHello\r\n";
    session.append("Drafts", letter).finish()?;
    assert_eq!(session.select("Drafts")?.exists, 1);
    let found = session.fetch("1", "RFC822")?;
    let body = found.iter().next().and_then(|message| message.body().map(<[u8]>::to_vec));
    assert_eq!(body.as_deref(), Some(&letter[..]));
    session.close()?;
    session.delete("Drafts")?;
    Ok(session.logout()?)
}

fn lettre() -> Tried {
    let address = server("ECOSYSTEM_SMTP");
    let letter = Message::builder()
        .from("Ramie <ramie@example.com>".parse()?)
        .to("you@example.com".parse()?)
        .subject("Fibers")
        .body("Hello\r\n.\r\n".to_owned())?;
    ramie::blocking(|| {
        let server = SmtpTransport::builder_dangerous(address.ip().to_string());
        let response = server.port(address.port()).build().send(&letter)?;
        assert!(response.is_positive());
        Ok(())
    })
}

fn suppaftp() -> Tried {
    let address = server("ECOSYSTEM_FTP");
    ramie::blocking(|| {
        let mut client = suppaftp::FtpStream::connect(address)?;
        client.login("anonymous", "a@example.com")?;
        let content = vec![7; 100_000];
        client.put_file("upload/file", &mut &content[..])?;
        assert!(client.retr_as_buffer("upload/file")?.into_inner() == content);
        assert_eq!(client.nlst(Some("upload"))?, ["upload/file"]);
        client.rm("upload/file")?;
        Ok(client.quit()?)
    })
}

fn ssh2() -> Tried {
    let address = server("ECOSYSTEM_SSH");
    let key = env::var("ECOSYSTEM_SSH_KEY")?;
    let user = env::var("ECOSYSTEM_SSH_USER")?;
    ramie::blocking(|| {
        let mut session = ssh2::Session::new()?;
        session.set_tcp_stream(std::net::TcpStream::connect(address)?);
        session.handshake()?;
        session.userauth_pubkey_file(&user, None, Path::new(&key), None)?;
        let sftp = session.sftp()?;
        let name = Path::new(&key).with_file_name("uploaded");
        let content = vec![7; 100_000];
        sftp.create(&name)?.write_all(&content)?;
        let mut back = Vec::new();
        sftp.open(&name)?.read_to_end(&mut back)?;
        assert!(back == content);
        Ok(sftp.unlink(&name)?)
    })
}

fn ldap3() -> Tried {
    let url = format!("ldap://{}", server("ECOSYSTEM_LDAP"));
    ramie::blocking(|| {
        let mut connection = ldap3::LdapConn::new(&url)?;
        connection.simple_bind("cn=admin,dc=example", "secret")?.success()?;
        let set = |values: &[&'static str]| values.iter().copied().collect();
        // The root may be there from an earlier try.
        let root =
            vec![("objectClass", set(&["organization", "dcObject"])), ("o", set(&["Ramie"]))];
        let _ = connection.add("dc=example", root)?;
        let person = vec![("objectClass", set(&["person"])), ("sn", set(&["Fiber"]))];
        let name = format!("cn=a{},dc=example", std::process::id());
        connection.add(&name, person)?.success()?;
        let found = connection.search(&name, ldap3::Scope::Base, "(sn=Fib*)", vec!["sn"])?;
        let (entries, _) = found.success()?;
        let entry = ldap3::SearchEntry::construct(entries.into_iter().next().ok_or("no entry")?);
        assert_eq!(entry.attrs["sn"], ["Fiber"]);
        connection.delete(&name)?.success()?;
        Ok(connection.unbind()?)
    })
}
